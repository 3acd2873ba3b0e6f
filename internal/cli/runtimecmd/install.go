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
		Long: `Installs a runtime with Helm's library: it checks the values like slipway helm
validate, runs the checks of slipway preflight, shows the objects that it will create,
asks for confirmation, installs, shows the progress, and returns when the runtime is
online at the platform. A release that is not healthy within --timeout is rolled back,
with the reason. It is a regular Helm release: helm list shows it.

The values are those of the files, then those of the flags, then those of --set. The
API key that the runtime joins with goes into a Secret, and never into a command line
or the values: --create-key creates one that can only register runtimes and is valid
for a day, --key-file reads one from a file, and an existing Secret slipway-user-token
is used.

With --print helm or --print terraform nothing is installed: the printed commands
install the same. A new key is then written to a new file.`,
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
	flags.StringVar(&given.Mode, "mode", "tunnel", "access mode of the platform: tunnel, ingress, http-route or mesh")
	flags.StringArrayVar(&given.Hosts, "host", nil, "host of an Ingress or HTTPRoute; may be repeated")
	flags.StringVar(&given.IngressClass, "ingress-class", "", "class of the Ingress")
	// class is a hidden alias of ingress-class.
	flags.StringVar(&given.IngressClass, "class", "", "")
	_ = flags.MarkHidden("class") // it is there
	flags.StringVar(&given.Gateway, "gateway", "", "Gateway of an HTTPRoute or a mesh, as name or namespace/name")
	flags.StringVar(&given.IngressURL, "ingress-url", "", "URL of the runtime in a service mesh")
	flags.BoolVar(&given.CreateKey, "create-key", false, "create an API key for the installation")
	flags.StringVar(&given.KeyFile, "key-file", "", "file with the API key (with --print default NAME.key)")
	flags.BoolVar(&given.Configuration, "configuration-runtime", false, "make it the configuration runtime of the account")
	flags.BoolVar(&given.NoWait, "no-wait", false, "with --print: do not let Helm wait")
	flags.StringVar(&given.Print, "print", "", "print the installation for helm or terraform instead of installing")
	command.RunE = func(command *cobra.Command, args []string) error {
		// Without a name lifecycle takes that of the values files.
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		// finish runs after parsing, because it depends on flags that were
		// changed.
		if err := shared.finish(command, &given.Options); err != nil {
			return err
		}
		return withOptionalPlatform(choice, func(platform lifecycle.Platform) error {
			return lifecycle.Install(command.Context(), newUI(command), platform, name, given)
		})
	}
	return command
}
