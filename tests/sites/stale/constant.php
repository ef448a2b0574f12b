<?php const CONSTANT = 1;
