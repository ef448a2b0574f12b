<?php

namespace Composer;

/**
 * Stands in for Composer's class where Composer has installed nothing: no package is one for
 * development only.
 */
final class InstalledVersions
{
    public static function isInstalled(string $package, bool $includeDevRequirements = true): bool
    {
        return false;
    }
}
