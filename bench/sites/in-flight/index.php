<?php

echo "Only async mode runs this site.\n";
