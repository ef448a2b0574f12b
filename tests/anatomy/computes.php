<?php
// What is known of this page: it computes for 20 ms without a call, then changes its directory, and
// sleeps for 20 ms.
$until = hrtime(true) + 20_000_000;
while (hrtime(true) < $until) {
}
chdir('/');
usleep(20000);
echo "computed";
