<?php

echo 'the boot says ', of_the_boot();
