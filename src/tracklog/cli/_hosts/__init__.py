"""`tracklog host NAME`: the commands of our hosts, one file each."""
