//! The stub file for IDEs says what this PHP says of itself.

use std::process::Command;

use crate::harness::*;

const STUB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/stubs/tokamak.php");

/// Lists what is ours by reflection: with a stub's path what the stub has, else what PHP has.
const DESCRIBE: &str = r#"<?php
function describe_type(?ReflectionType $type): string { return $type === null ? '' : "$type "; }
function describe(ReflectionFunctionAbstract $f): string
{
    $all = array_map(fn(ReflectionParameter $p) => describe_type($p->getType())
        . ($p->isVariadic() ? '...' : '') . '$' . $p->name
        . ($p->isDefaultValueAvailable() ? ' = ' . json_encode($p->getDefaultValue(),
            JSON_PRESERVE_ZERO_FRACTION) : ''), $f->getParameters());
    $flags = $f instanceof ReflectionMethod && $f->isStatic() ? 'static ' : '';
    $returned = $f->hasReturnType() ? describe_type($f->getReturnType()) : '';
    return "$flags{$f->name}(" . implode(', ', $all) . ') ' . $returned;
}
class_exists('Tokamak\Pool');
$stub = $argv[1] ?? null;
$is_ours = fn(string $name) => preg_match('/^(tokamak[_\\\\]|headers_send$)/i', $name);
if ($stub !== null) {
    require $stub;
}
$functions = get_defined_functions();
$functions = array_filter($functions[$stub === null ? 'internal' : 'user'], $is_ours);
$lines = array_map(fn($name) => describe(new ReflectionFunction($name)), $functions);
$classes = array_filter([...get_declared_classes(), ...get_declared_interfaces()], $is_ours);
foreach ($classes as $name) {
    $class = new ReflectionClass($name);
    if (str_contains((string) $class->getDocComment(), '@internal')) {
        continue;
    }
    $parent = $class->getParentClass();
    $head = ($class->isFinal() ? 'final ' : '') . ($class->isInterface() ? 'interface ' : 'class ')
        . $class->name . ($parent ? " extends {$parent->name}" : '');
    $lines[] = $head;
    foreach ($class->getInterfaceNames() as $interface) {
        $lines[] = "{$class->name} implements $interface";
    }
    foreach ($class->getConstants() as $constant => $_) {
        $lines[] = "{$class->name} const $constant";
    }
    foreach ($class->getMethods(ReflectionMethod::IS_PUBLIC) as $method) {
        if ($method->class === $class->name && $method->name !== '__destruct') {
            $lines[] = "{$class->name}: " . describe($method);
        }
    }
}
sort($lines);
echo implode("\n", $lines), "\n";
"#;

#[test]
fn the_stub_has_what_php_has() {
    let mut site = Site::classic(&[("describe.php", DESCRIBE)]);
    let ours = site.get("/describe.php").text();
    let output = Command::new("php").arg(site.file("describe.php")).arg(STUB).output().unwrap();
    let stub = String::from_utf8(output.stdout).unwrap();
    let stub: Vec<_> = stub.lines().collect();
    let ours: Vec<_> = ours.lines().collect();
    let missing: Vec<_> = ours.iter().filter(|line| !stub.contains(line)).collect();
    let wrong: Vec<_> = stub.iter().filter(|line| !ours.contains(line)).collect();
    assert!(
        missing.is_empty() && wrong.is_empty() && ours.len() > 40,
        "packaging/stubs/tokamak.php lacks {missing:#?}\nand has besides {wrong:#?}\n{}",
        site.log()
    );
}
