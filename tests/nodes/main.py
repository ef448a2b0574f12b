"""Steps and record of scripts/test-nodes."""
import sys
from fleet import Fleet
f = Fleet(sys.argv[1], 8, True)
try:
    f.start()
    for n in f.nodes:
        print(n.asks("worker","/page/a")[2], n.asks("sealed","/page/a")[2],n.asks("async","/page/a")[2])
except BaseException as e:
    import subprocess
    print(e)
    for m in [f.balancer,f.names,f.authority,f.nodes[0],f.nodes[1]]:
        try: print(m.name, m.log()[-1500:])
        except Exception as e: print(e)
