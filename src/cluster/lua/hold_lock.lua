-- Take a lock that is free, or prolong it when it is mine.
-- KEYS  1 the lock      ARGV  1 worker_id, 2 ttl_ms
-- Returns 1 mine, 0 somebody else's.
local holder = redis.call("GET", KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1
