-- Sit down on the word of Postgres, whoever sits there, and keep the epoch of that word: it has granted this term.
-- KEYS  1 leader:lock, 2 leader:epoch      ARGV  1 worker_id, 2 ttl_ms, 3 epoch, 4 the highest epoch that can be true
-- Returns 1, or 0: Redis has heard of a newer epoch, so that word is old. A higher one than can be true is replaced.
local known = tonumber(redis.call("GET", KEYS[2])) or 0
if known > tonumber(ARGV[3]) and known <= tonumber(ARGV[4]) then return 0 end
redis.call("SET", KEYS[2], ARGV[3])
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1
