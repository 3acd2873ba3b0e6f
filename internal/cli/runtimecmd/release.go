package runtimecmd

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/kubeflags"
	"slipway.dev/slipway/internal/install/lifecycle"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/preflight"
)

// releaseFlags are the flags of install, upgrade and restore that do not map to
// one field of lifecycle.Options. finish converts them.
type releaseFlags struct {
	local        kube.UserChoice
	outputValues string
	skip         []string
	caFile       string
}

// add adds the flags that install, upgrade and restore share. Most are bound to
// options directly.
func (f *releaseFlags) add(command *cobra.Command, options *lifecycle.Options) {
	flags := command.Flags()
	kubeflags.Add(command.Flags(), &f.local)
	flags.StringVarP(&options.Namespace, "namespace", "n", release.DefaultNamespace, "namespace of the runtime")
	flags.StringVar(&options.Release, "release", release.DefaultName, "name of the Helm release")
	flags.StringVar(&options.Chart, "chart", "", "directory, archive or oci:// address of the chart (default the one in this program)")
	flags.StringVar(&options.Version, "version", "", "version of the chart (default the newest, or that of this program)")
	// chart-version is a hidden alias of version.
	flags.StringVar(&options.Version, "chart-version", "", "")
	_ = flags.MarkHidden("chart-version") // it is there
	flags.BoolVar(&options.PlainHTTP, "plain-http", false, "fetch the chart from a registry without TLS")
	flags.StringArrayVarP(&options.Files, "values", "f", nil, "values file; may be repeated, and later files take precedence")
	flags.StringArrayVar(&options.Sets, "set", nil, "value as key=value, which overrides the files; may be repeated")
	flags.StringArrayVar(&options.TextSets, "set-string", nil, "string value, as key=value; may be repeated")
	flags.DurationVar(&options.Timeout, "timeout", lifecycle.DefaultTimeout, "time for the runtime to become healthy")
	flags.BoolVarP(&options.Yes, "yes", "y", false, "do not ask for confirmation")
	flags.BoolVar(&options.DryRun, "dry-run", false, "check and show the plan without changing anything")
	flags.StringVar(&f.outputValues, "output-values", "", "write the values to a file; - is standard output")
	flags.BoolVar(&options.KeepFailed, "keep-failed", false, "keep a release that is not healthy in time, for debugging")
	flags.BoolVar(&options.SkipPreflight, "skip-preflight", false, "skip the checks of slipway preflight before and after")
	flags.StringSliceVar(&f.skip, "skip", nil, "checks of slipway preflight to skip, such as P16,P21 or tls-cert")
	flags.StringVar(&f.caFile, "ca-file", "", "PEM file with CA certificates that verify the host of the runtime, in addition to the system's")
}

// finish completes the options once the flags are parsed. It must be called
// before the options are used.
func (f *releaseFlags) finish(command *cobra.Command, options *lifecycle.Options) error {
	roots, err := files.HostAuthorities(f.caFile)
	problems := []error{err}
	options.Roots = roots
	for _, name := range f.skip {
		code, err := preflight.ParseCode(strings.TrimSpace(name))
		problems = append(problems, err)
		options.SkipChecks = append(options.SkipChecks, code)
	}
	if err := errors.Join(problems...); err != nil {
		return exit.UsageError{Err: err}
	}
	// The default namespace gives way to the one of the platform's record; one
	// that the user names does not.
	options.NamespaceGiven = command.Flags().Changed("namespace")
	// lifecycle connects only when it needs the cluster.
	options.Connect = func() (*kube.Cluster, error) { return kubeflags.Connect(f.local) }
	switch f.outputValues {
	case "":
	case "-":
		options.SaveValues = func(text []byte) error {
			_, err := command.OutOrStdout().Write(text)
			return err
		}
	default:
		// The file is private: values may contain secrets.
		options.SaveValues = func(text []byte) error {
			return files.WritePrivate(f.outputValues, func(w io.Writer) error {
				_, err := w.Write(text)
				return err
			})
		}
	}
	return nil
}
