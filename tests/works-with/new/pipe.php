<?php
// What a row of PHP 8.5 uses, in a file of its own: older ones cannot read it.
return static fn (string $text): string => $text |> trim(...) |> strrev(...) |> (static fn (string $text) => "$text!");
