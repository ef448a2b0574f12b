<?php return 'old';
