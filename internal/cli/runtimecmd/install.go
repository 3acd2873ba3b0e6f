package runtimecmd

import (
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/install/lifecycle"
)

// runtimeInstallCommand installs a runtime, or prints the commands for it (R49
// to R53, R76). It only parses flags; lifecycle.Install does the work and
// validates the combination of flags. A platform is optional: with --print, and
// for a runtime that joins none, lifecycle gets nil and decides whether it
// needs one.
func runtimeInstallCommand(choice *apiclient.Choice) *cobra.Command {
	given := &lifecycle.InstallOptions{}
	shared := &releaseFlags{}
	command := &cobra.Command{
		Use:   "install [NAME]",
		Short: "Install a runtime in a cluster, or print the commands for it",
		Long: `Installs a runtime with Helm's library: it checks the values as slipway helm validate
does, runs the checks of slipway preflight, shows what it will create, asks, installs,
says what it waits for, and ends when the runtime is online at the platform. What is
not healthy within --timeout is taken back, with the reason. The release is one of
Helm: helm list shows it.

The values are those of the files, then those of the flags, then those of --set. The
API key that the runtime joins with goes into a Secret, and never into a command line
or the values: --create-key makes one that registers runtimes only and is good for a
day, --key-file takes one from a file, and a Secret slipway-user-token that is there
already is used.

With --print helm or --print terraform nothing is installed: what is printed installs
the same. A key that is made then goes to a new file.`,
		Example: `  slipway runtime install prod --create-key
  slipway runtime install prod --create-key --mode ingress --host prod.example.com --ingress-class nginx
  slipway runtime install prod --create-key -f values.yaml --dry-run --output-values -
  slipway runtime install prod --key-file key.txt --mode mesh --ingress-url https://prod.example.com --print terraform`,
		Args: cobra.MaximumNArgs(1),
	}
	// The flags below exist for install only; upgrade keeps these settings in
	// the values of the release.
	shared.add(command, &given.Options)
	flags := command.Flags()
	flags.StringVar(&given.Mode, "mode", "tunnel", "how the platform reaches it: tunnel, ingress, http-route or mesh")
	flags.StringArrayVar(&given.Hosts, "host", nil, "host of an Ingress or HTTPRoute; may be repeated")
	flags.StringVar(&given.IngressClass, "ingress-class", "", "class of the Ingress")
	flags.StringVar(&given.Gateway, "gateway", "", "Gateway of an HTTPRoute, as name or namespace/name")
	flags.StringVar(&given.IngressURL, "ingress-url", "", "URL of the runtime in a service mesh")
	flags.BoolVar(&given.CreateKey, "create-key", false, "make an API key for the installation")
	flags.StringVar(&given.KeyFile, "key-file", "", "file with the API key (with --print default NAME.key)")
	flags.BoolVar(&given.Configuration, "configuration-runtime", false, "make it the configuration runtime of the account")
	flags.BoolVar(&given.NoWait, "no-wait", false, "with --print: do not have Helm wait")
	flags.StringVar(&given.Print, "print", "", "print what installs it, and install nothing: helm or terraform")
	command.RunE = func(command *cobra.Command, args []string) error {
		// Without a name lifecycle takes that of the values files.
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		// finish runs after parsing, because it depends on flags that were
		// changed.
		shared.finish(command, &given.Options)
		return withOptionalPlatform(choice, func(platform lifecycle.Platform) error {
			return lifecycle.Install(command.Context(), newUI(command), platform, name, given)
		})
	}
	return command
}
