-- The last digit of the query says which address is asked.
lighty.r.req_env.SHARD = (lighty.r.req_attr["uri.query"] or ""):match("%d$")
