"""Long chaos in parts: `make soak` runs them one after another and prints what they counted."""
