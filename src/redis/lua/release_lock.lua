-- Leave the leader lock, so that the next candidate need not wait for it to expire.
-- KEYS  1 leader:lock      ARGV  1 worker_id
-- Returns 1 released, 0 it was not mine.
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call("DEL", KEYS[1])
