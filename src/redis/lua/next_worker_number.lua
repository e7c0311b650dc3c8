-- Give a worker its number: the next one, and above every number that Postgres knows, in case Redis forgot its counter.
-- KEYS  1 worker:id_seq      ARGV  1 the highest number in Postgres
-- Returns the number. A counter that cannot be true starts again from what Postgres knows.
local counted = tonumber(redis.call("GET", KEYS[1])) or 0
if counted < tonumber(ARGV[1]) or counted >= 1e15 then counted = tonumber(ARGV[1]) end
redis.call("SET", KEYS[1], string.format("%d", counted))
return redis.call("INCR", KEYS[1])
