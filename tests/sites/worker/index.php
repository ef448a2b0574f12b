<?php
throw new LogicException('The worker answers for this path.');
