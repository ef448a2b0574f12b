<?php

namespace App;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Bundle\TwigBundle\TwigBundle;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

/**
 * The application: which bundles it uses, how they are configured, which routes it answers.
 *
 * Nothing is ever written below the source tree: the compiled container, the routes, the templates
 * and the sessions go to a directory of their own (see cacheRoot).
 */
final class Kernel extends BaseKernel
{
    use MicroKernelTrait;

    /** Enough routes that matching one is real work, as in an application that people use. */
    private const SECTIONS = 200;

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
        yield new TwigBundle();
    }

    public function getProjectDir(): string
    {
        return \dirname(__DIR__);
    }

    public function getCacheDir(): string
    {
        return $this->cacheRoot().'/cache/'.$this->environment;
    }

    public function getLogDir(): string
    {
        return $this->cacheRoot().'/log';
    }

    private function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', [
            // Signs nothing of value here; an application takes this from its environment.
            'secret' => 'an example has no secrets',
            'http_method_override' => false,
            'router' => ['utf8' => true],
            'session' => [
                'storage_factory_id' => 'session.storage.factory.native',
                'handler_id' => 'session.handler.native_file',
                'save_path' => '%kernel.cache_dir%/sessions',
                'cookie_samesite' => 'lax',
            ],
        ]);
        $container->extension('twig', ['default_path' => '%kernel.project_dir%/templates']);
        $container->services()
            ->set(Controller::class)
            ->autowire()
            ->public();
    }

    private function configureRoutes(RoutingConfigurator $routes): void
    {
        for ($section = 0; $section < self::SECTIONS; ++$section) {
            $routes->add("section_$section", "/section$section/{slug}")->controller([Controller::class, 'page']);
        }
        $pages = ['empty' => 'GET', 'page' => 'GET', 'session' => 'GET', 'hello' => 'GET', 'error' => 'GET', 'ask' => 'GET', 'form' => 'POST', 'login' => 'POST'];
        foreach ($pages as $name => $method) {
            $routes->add($name, "/$name")->controller([Controller::class, $name])->methods([$method]);
        }
    }

    /**
     * APP_CACHE_DIR, or a directory of this user and this version of the application in the
     * system's temporary directory.
     *
     * That directory holds PHP code which is going to be run, so one that another user has put
     * there is refused.
     */
    private function cacheRoot(): string
    {
        if ($chosen = getenv('APP_CACHE_DIR')) {
            return $chosen;
        }
        $user = posix_geteuid();
        $version = substr(md5(__FILE__.filemtime(__FILE__)), 0, 8);
        $root = sys_get_temp_dir()."/tokamak-symfony-$user-$version";
        if (!is_dir($root)) {
            @mkdir($root, 0700, true);
        }
        if (fileowner($root) !== $user) {
            throw new \RuntimeException("The cache directory $root belongs to another user.");
        }

        return $root;
    }
}
