<?php
return 'included';
