// Package edgecmd is the command slipway edge, and the commands below it that
// query the admin API of a running edge. It parses and checks options;
// internal/controller runs the edge.
package edgecmd

import (
	"errors"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/buildinfo"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/roleflags"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/observe"
)

// Command returns the command slipway edge; run is controller.Run, or its
// substitute in a test. Cobra does not parse its flags: an option may have a
// free name in it (entryPoints.<name>.address), and also comes from a file and
// the environment. internal/config parses all three alike.
func Command(run controller.Runner) *cobra.Command {
	command := &cobra.Command{
		Use:   "edge [options]",
		Short: "Run the edge: serve the traffic of a cluster",
		Long: `Serves HTTP traffic with routes from providers: the Ingresses of a Kubernetes
cluster, or a file. It runs until SIGINT or SIGTERM, then drains active requests. A
second signal stops it at once, with exit code 130.`,
		Example: `  slipway edge --providers.kubernetesIngress
  slipway edge --providers.file.filename=routes.yaml --entryPoints.web.address=:80
  slipway edge --configFile=edge.yaml --print-config`,
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true, // Use has "[options]" already
		RunE: func(command *cobra.Command, args []string) error {
			return start(command, args, run)
		},
		ValidArgsFunction: roleflags.Complete(config.EdgeOptions),
	}
	command.SetHelpFunc(func(command *cobra.Command, _ []string) { roleflags.PrintHelp(command, config.EdgeOptions()) })
	command.AddCommand(adminCommands()...)
	return command
}

// checkedOptions are the options of the edge with a validation that includes what
// package controller knows.
type checkedOptions struct{ *config.Edge }

// Validate implements the options of [roleflags.Begin].
func (o checkedOptions) Validate() error {
	if err := o.Edge.Validate(); err != nil {
		return err
	}
	return controller.Check(o.Edge)
}

// start loads and validates the options, and then prints help, prints the
// configuration, or runs the edge until the context of the command ends.
func start(command *cobra.Command, args []string, run controller.Runner) error {
	loaded, err := config.LoadEdge(roleflags.Sources(args))
	options := loaded.Edge
	if begins, err := roleflags.Begin(command, loaded, err, checkedOptions{options}); !begins {
		return err
	}
	log, err := observe.NewLogger(command.ErrOrStderr(), options.Log.Level, options.Log.Format)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	// Checked after --print-config: a configuration without a provider can be
	// printed, but an edge without one would serve nothing but 404.
	if options.Providers.File == nil && options.Providers.KubernetesIngress == nil {
		return exit.UsageError{Err: errors.New("no provider is enabled: set --providers.file.filename=… or --providers.kubernetesingress")}
	}
	roleflags.LogStart(log, "edge", loaded.File, options.Changes())
	return controller.Serve(command.Context(), options, admin.Build(buildinfo.Read()), log, run)
}
