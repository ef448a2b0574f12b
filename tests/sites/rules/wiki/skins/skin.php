<?php echo "must not run";
