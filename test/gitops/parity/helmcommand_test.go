package parity

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/cli/values"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/registry"
	release "helm.sh/helm/v4/pkg/release/v1"
)

// isHelm reports whether the test program was started as the command helm, which
// Kustomize does for helmCharts.
func isHelm(args []string) bool {
	return len(args) > 1 && slices.Contains([]string{"version", "pull", "template"}, args[1])
}

// runHelm is the part of the command that Kustomize uses, with Helm's library.
func runHelm(args []string, out io.Writer) error {
	flags := pflag.NewFlagSet("helm", pflag.ContinueOnError)
	folder, repository, version := flags.String("untardir", "", ""), flags.String("repo", "", ""), flags.String("version", "", "")
	namespace, kube, apis := flags.String("namespace", "default", ""), flags.String("kube-version", "", ""), flags.StringArray("api-versions", nil, "")
	files := flags.StringArrayP("values", "f", nil, "")
	crds, skipTests, noHooks := flags.Bool("include-crds", false, ""), flags.Bool("skip-tests", false, ""), flags.Bool("no-hooks", false, "")
	flags.Bool("untar", true, "")
	flags.Bool("short", true, "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	settings := cli.New()
	switch args[0] {
	case "version":
		_, err := fmt.Fprintln(out, "v4.3.1")
		return err
	case "pull":
		client, err := registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard))
		if err != nil {
			return err
		}
		pull := action.NewPull(action.WithConfig(&action.Configuration{RegistryClient: client}))
		pull.Settings, pull.Untar, pull.UntarDir, pull.DestDir = settings, true, *folder, *folder
		pull.RepoURL, pull.Version, pull.PlainHTTP = *repository, *version, true
		if err := os.MkdirAll(*folder, 0o755); err != nil {
			return err
		}
		_, err = pull.Run(flags.Arg(0))
		return err
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRunStrategy, install.Replace = action.DryRunClient, true
	install.ReleaseName, install.Namespace, install.IncludeCRDs, install.DisableHooks = flags.Arg(0), *namespace, *crds, *noHooks
	install.APIVersions = common.VersionSet(*apis)
	if *kube != "" {
		parsed, err := common.ParseKubeVersion(*kube)
		if err != nil {
			return err
		}
		install.KubeVersion = parsed
	}
	loaded, err := loader.LoadDir(flags.Arg(1))
	if err != nil {
		return err
	}
	given, err := (&values.Options{ValueFiles: *files}).MergeValues(getter.All(settings))
	if err != nil {
		return err
	}
	made, err := install.Run(loaded, given)
	if err != nil {
		return err
	}
	rel := made.(*release.Release)
	_, err = fmt.Fprintln(out, rel.Manifest)
	for _, hook := range rel.Hooks {
		if *noHooks || *skipTests && slices.Contains(hook.Events, release.HookTest) {
			continue
		}
		_, _ = fmt.Fprintf(out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return err
}
