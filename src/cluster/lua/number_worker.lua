-- Give a worker its number: the next one, and above every number that Postgres knows, in case Redis forgot its counter.
-- KEYS  1 worker:id_seq      ARGV  1 the highest number in Postgres
-- Returns the number.
local known = math.max(tonumber(redis.call("GET", KEYS[1])) or 0, tonumber(ARGV[1]))
redis.call("SET", KEYS[1], known)
return redis.call("INCR", KEYS[1])
