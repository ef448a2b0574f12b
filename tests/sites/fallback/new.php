<?php return 'new';
