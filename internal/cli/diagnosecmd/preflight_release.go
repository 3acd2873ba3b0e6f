package diagnosecmd

import (
	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/install/lifecycle"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/install/values"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// fromRelease completes the options with the values of the installed release,
// and returns these values; nil if there is no release. Flags that are given
// win. So a check after the installation needs no flags, and cannot look at
// another mode than the installed one by mistake.
func (f *preflightFlags) fromRelease(command *cobra.Command, world *preflight.World, options *preflight.Options) (map[string]any, error) {
	given := command.Flags().Changed
	f.namespaceOf(command, world, options)
	place := release.Place{Release: options.Release, Namespace: options.Settings.Namespace}
	client, err := release.Open(world.Cluster, place, nil)
	if err != nil {
		return nil, err
	}
	current, err := client.Current(command.Context())
	switch {
	case err != nil:
		printer.Note(command, "The release cannot be read, so that only the flags count: %s", err.Error())
		return nil, nil
	case current == nil:
		printer.Note(command, "There is no release %s in this cluster, so that only the flags count: --release and --namespace name another.", place)
		return nil, nil
	}
	world.ChangeRelease = client.Change
	document := values.New(values.Runtime(), current.Values)
	installed := lifecycle.CheckOptions(document, place, options.Stage)
	if !given("runtime") {
		options.Settings.Runtime = installed.Settings.Runtime
	}
	if !given("account") {
		options.Settings.AccountID = installed.Settings.AccountID
	}
	if !given("token-secret") {
		options.Token = installed.Token
	}
	// The mode of the release decides how the other flags are read.
	now, _ := mode.Resolve(installed.Settings)
	chosen, _ := mode.Parse(f.mode)
	if now == mode.Unresolved || given("mode") && chosen != now {
		return current.Values, nil
	}
	f.mode = now.String()
	if err := f.accessMode(options); err != nil {
		return nil, exit.UsageError{Err: err}
	}
	merged := installed.Settings
	merged.Runtime, merged.AccountID = options.Settings.Runtime, options.Settings.AccountID
	f.overlay(given, &merged, options)
	options.Settings = merged
	if !given("gateway") {
		options.Gateway = installed.Gateway
	}
	return current.Values, nil
}

// namespaceOf takes the namespace of a runtime that --runtime names from the
// platform, which knows where it is installed.
func (f *preflightFlags) namespaceOf(command *cobra.Command, world *preflight.World, options *preflight.Options) {
	if world.Platform == nil || !command.Flags().Changed("runtime") || command.Flags().Changed("namespace") {
		return
	}
	response, err := world.Platform.Runtimes.GetRuntime(command.Context(), connect.NewRequest(&platformv1.GetRuntimeRequest{Name: options.Settings.Runtime}))
	// P11 reports a platform that does not respond.
	if err == nil && response.Msg.GetRuntime().GetNamespace() != "" {
		options.Settings.Namespace = response.Msg.GetRuntime().GetNamespace()
	}
}

// overlay replaces the settings of the release by those of flags, one by one.
// options have the flags as settings of the same mode.
func (f *preflightFlags) overlay(given func(string) bool, merged *mode.Settings, options *preflight.Options) {
	flags := options.Settings
	if given("host") {
		merged.Ingress.Hosts, merged.HTTPRoute.Hostnames = flags.Ingress.Hosts, flags.HTTPRoute.Hostnames
	}
	if given("ingress-class") || given("class") {
		merged.Ingress.ClassName = flags.Ingress.ClassName
	}
	if given("protocol") {
		merged.Ingress.Protocol, merged.HTTPRoute.Protocol = flags.Ingress.Protocol, flags.HTTPRoute.Protocol
	}
	if given("tls-secret") {
		merged.Ingress.TLS = flags.Ingress.TLS
	}
	if given("gateway") {
		merged.HTTPRoute.ParentRefs = flags.HTTPRoute.ParentRefs
	}
	// A mesh has its host in the URL.
	if given("ingress-url") || given("host") && merged.IngressURL != "" {
		merged.IngressURL = flags.IngressURL
	}
}
