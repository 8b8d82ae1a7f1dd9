# Stands in for an agent: it prints the stream that one would print.
echo '{"type":"thread.started","thread_id":"t-1"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"i0","type":"agent_message","text":"Looks good."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":120,"output_tokens":8}}'
