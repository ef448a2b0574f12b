<?php
// The worker script serves all requests.
