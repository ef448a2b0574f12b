<?php
throw new RuntimeException('the boot of this worker fails');
