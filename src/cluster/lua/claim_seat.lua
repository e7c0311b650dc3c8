-- Sit down on the word of Postgres, whoever sits there: it has granted a term of this epoch.
-- KEYS  1 leader:lock, 2 leader:epoch      ARGV  1 worker_id, 2 ttl_ms, 3 epoch
-- Returns 1, or 0: Redis has heard of a newer epoch, so that word is old.
local known = tonumber(redis.call("GET", KEYS[2])) or 0
if tonumber(ARGV[3]) < known then return 0 end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1
