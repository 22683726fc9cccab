"""Helm's own library behind the part of its command line that the tests and README use. scripts/helm.sh runs it.

helm lint CHART | template NAME CHART | install NAME CHART | upgrade NAME CHART | rollback NAME [REVISION] | uninstall NAME
     [-n NAMESPACE] [--set KEY=VALUE]… [-f FILE]… [--reuse-values]

As with helm, KUBECONFIG names the cluster. lint fails for warnings too, and template needs no cluster.
"""

import argparse
import pathlib
import sys

import helm_python as helm

WARNING = 2


def merged(below, above):
    """Returns two trees of values as one. `above` wins."""
    both = dict(below)
    for key, value in above.items():
        nested = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = merged(both[key], value) if nested else value
    return both


def values(args):
    """Returns the values of the arguments. As with helm, --set wins over files."""
    all_values = {}
    for file in args.values:
        all_values = merged(all_values, helm.values_from_yaml(pathlib.Path(file).read_text()))
    for expression in args.set:
        all_values = merged(all_values, helm.parse_set_string(expression))
    return all_values


def lint(args):
    """Prints what Helm finds, and fails for warnings and errors."""
    messages = helm.lint(args.names[0], values(args), strict=True, namespace=args.namespace)["messages"]
    for message in messages:
        print(f"[{message['severity']}] {message['path']}: {message['error']}")
    return any(message["severity"] >= WARNING for message in messages)


def template(args):
    """Prints the objects of a release that is not installed."""
    name, chart = args.names
    with helm.Config(storage_driver="memory") as config:
        rendered = config.install(chart, name, values(args), namespace=args.namespace, dry_run="client")
    print(rendered["manifest"], end="")


def change(args):
    """Installs, upgrades, rolls back or uninstalls a release, and prints its notes."""
    name, *chart = args.names
    with helm.Config(namespace=args.namespace) as config:
        if args.verb == "uninstall":
            config.uninstall(name)
            return
        if args.verb == "rollback":
            config.rollback(name, version=int(chart[0]) if chart else None)
            return
        options = {"reuse_values": args.reuse_values} if args.verb == "upgrade" else {}
        action = config.upgrade if args.verb == "upgrade" else config.install
        print(action(*chart, name, values(args), namespace=args.namespace, **options)["notes"], end="")


parser = argparse.ArgumentParser(prog="helm")
parser.add_argument("verb", choices=["lint", "template", "install", "upgrade", "rollback", "uninstall"])
parser.add_argument("names", nargs="+")
parser.add_argument("-n", "--namespace", default="default")
parser.add_argument("--set", action="append", default=[])
parser.add_argument("-f", "--values", action="append", default=[])
parser.add_argument("--reuse-values", action="store_true")
arguments = parser.parse_args()
try:
    sys.exit({"lint": lint, "template": template}.get(arguments.verb, change)(arguments))
except helm.HelmError as error:
    sys.exit(f"Error: {error}")
