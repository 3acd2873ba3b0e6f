package runtimecmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// runtimeListCommand lists the runtimes of the account (R61). The form name
// prints one name per line, for loops in scripts. ListRuntimes reads all pages,
// so that scripts see every runtime.
func runtimeListCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the runtimes of the account", Args: cobra.NoArgs}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML, printer.FormName)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, _ []string) error {
		// The list has the status of the last heartbeats; no runtime is
		// contacted.
		all, err := client.ListRuntimes(command.Context())
		if err != nil {
			return err
		}
		if output.Form == printer.FormName {
			for _, one := range all {
				if _, err := fmt.Fprintln(command.OutOrStdout(), printer.Printable(one.GetName())); err != nil {
					return err
				}
			}
			return nil
		}
		if len(all) == 0 {
			// The note is on standard error: the list on standard output stays
			// empty.
			printer.Note(command, "The account has no runtime yet: create one with slipway runtime install NAME --create-key.")
		}
		return printer.Show(command, output, &platformv1.ListRuntimesResponse{Runtimes: all}, func(w io.Writer) error { return printRuntimes(w, all) })
	})
	return command
}

// printRuntimes prints runtimes as a table. An empty list prints no header.
func printRuntimes(w io.Writer, runtimes []*platformv1.Runtime) error {
	if len(runtimes) == 0 {
		return nil
	}
	return printer.List(w, []string{"NAME", "NAMESPACE", "CLUSTER", "MODE", "VERSION", "ONLINE", "SYNC_STATUS", "HEALTH", "INSTALLATION", "LAST_SEEN"}, runtimes, func(one *platformv1.Runtime) []string {
		return []string{one.GetName(), one.GetNamespace(), printer.OrDash(one.GetCluster()), modeWord(one.GetAccessMode()), shownVersion(one),
			printer.YesNo(one.GetOnline()), printer.EnumWord(one.GetSync().String(), "SYNC_STATUS_"), printer.EnumWord(one.GetHealth().String(), "HEALTH_STATUS_"),
			installationWord(one), printer.Timestamp(one.GetLastHeartbeatAt())}
	})
}

// modeWord formats an access mode in lower case.
func modeWord(mode platformv1.AccessMode) string {
	return strings.ToLower(printer.EnumWord(mode.String(), "ACCESS_MODE_"))
}

// installationWord formats the status of the installation. An uninstallation in
// progress wins over the last status.
func installationWord(runtime *platformv1.Runtime) string {
	if runtime.GetUninstalling() {
		return "Uninstalling"
	}
	return printer.EnumWord(runtime.GetInstallation().String(), "INSTALLATION_STATUS_")
}

// shownVersion formats the version, followed by a newer one if the runtime can
// be upgraded (R112).
func shownVersion(runtime *platformv1.Runtime) string {
	version := printer.OrDash(runtime.GetVersion())
	if newer := runtime.GetUpdateAvailable(); newer != "" {
		version += " (" + newer + " is available)"
	}
	return version
}

// runtimeGetCommand shows one runtime (R62, R63): the last report of its agent,
// as the platform stored it, also while the runtime is offline.
func runtimeGetCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{
		Use: "get NAME", Short: "Show a runtime with its components, Git Sources, clusters and pending steps",
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		response, err := apiclient.Call(command.Context(), client, client.Runtimes().GetRuntime, &platformv1.GetRuntimeRequest{Name: args[0]})
		if err != nil {
			return err
		}
		return printer.Show(command, output, response.GetRuntime(), func(w io.Writer) error { return printRuntime(w, response.GetRuntime()) })
	})
	return command
}

// printRuntime prints a runtime: facts first, then one table for each non-empty
// list. Optional facts without a value have no row.
func printRuntime(w io.Writer, one *platformv1.Runtime) error {
	facts, flush := printer.NewTable(w)
	facts.Row("Name:", one.GetName())
	facts.Row("Namespace:", one.GetNamespace())
	facts.Row("Cluster:", printer.OrDash(one.GetCluster())+", Kubernetes "+printer.OrDash(one.GetKubernetesVersion()))
	facts.Row("Version:", shownVersion(one))
	facts.Row("Chart:", printer.OrDash(one.GetChartVersion()))
	facts.Row("Access:", printer.WithMessage(modeWord(one.GetAccessMode()), one.GetAccessUrl()))
	if one.GetIngressClass() != "" {
		facts.Row("Ingress class:", one.GetIngressClass())
	}
	// The facts of an offline runtime may be outdated; the time of the last
	// heartbeat shows by how much.
	online := "yes"
	if !one.GetOnline() {
		online = "no, last seen " + printer.Timestamp(one.GetLastHeartbeatAt())
	}
	facts.Row("Online:", online)
	facts.Row("Registered:", printer.Timestamp(one.GetRegisteredAt()))
	facts.Row("Configuration runtime:", printer.YesNo(one.GetConfigurationRuntime()))
	facts.Row("Sync:", printer.EnumWord(one.GetSync().String(), "SYNC_STATUS_"))
	facts.Row("Health:", printer.WithMessage(printer.EnumWord(one.GetHealth().String(), "HEALTH_STATUS_"), one.GetHealthMessage()))
	facts.Row("Installation:", installationWord(one))
	if one.GetGitTokenExpiresAt() != nil {
		facts.Row("Git token expires:", printer.Timestamp(one.GetGitTokenExpiresAt()))
	}
	if err := flush(); err != nil {
		return err
	}
	// Pending steps come first: a runtime that is not complete explains most of
	// the problems below.
	for _, part := range []func(io.Writer, *platformv1.Runtime) error{printSteps, printComponents, printSources, printClusters} {
		if err := part(w, one); err != nil {
			return err
		}
	}
	return nil
}

// printSteps prints the pending steps of the installation, each with the
// command that completes it (R63). A complete runtime has none, and prints
// nothing.
func printSteps(w io.Writer, one *platformv1.Runtime) error {
	return printer.Section(w, []string{"STILL TO DO", "COMMAND"}, one.GetPendingSteps(), func(step platformv1.CompletionStep) []string {
		what, command := apiclient.PendingStep(step, one.GetName())
		return []string{what, command}
	})
}

// printComponents prints the components of the runtime with their sync and
// health status.
func printComponents(w io.Writer, one *platformv1.Runtime) error {
	return printer.Section(w, []string{"COMPONENT", "VERSION", "SYNC", "HEALTH", "MESSAGE"}, one.GetComponents(), func(each *platformv1.Component) []string {
		return []string{each.GetName(), printer.OrDash(each.GetVersion()), printer.EnumWord(each.GetSync().String(), "SYNC_STATUS_"), printer.EnumWord(each.GetHealth().String(), "HEALTH_STATUS_"), each.GetHealthMessage()}
	})
}

// printSources prints the Git Sources of the runtime with their status.
func printSources(w io.Writer, one *platformv1.Runtime) error {
	return printer.Section(w, []string{"GIT SOURCE", "REPOURL", "PATH", "SYNC", "HEALTH", "MESSAGE"}, one.GetGitSources(), func(each *platformv1.GitSourceSummary) []string {
		return []string{each.GetName(), each.GetRepoUrl(), printer.OrDash(each.GetPath()), printer.EnumWord(each.GetSync().String(), "SYNC_STATUS_"), printer.EnumWord(each.GetHealth().String(), "HEALTH_STATUS_"), each.GetMessage()}
	})
}

// printClusters prints the clusters that the runtime delivers to. Status is the
// text of the runtime and not an enum, so it is printed as it is.
func printClusters(w io.Writer, one *platformv1.Runtime) error {
	return printer.Section(w, []string{"CLUSTER", "SERVER", "VERSION", "STATUS", "MESSAGE"}, one.GetClusters(), func(each *platformv1.ManagedClusterSummary) []string {
		return []string{each.GetName(), each.GetServer(), printer.OrDash(each.GetVersion()), each.GetStatus(), each.GetMessage()}
	})
}

// runtimeCheckCommand checks a name before an installation (R33). A name that
// is taken or invalid is an error with a free proposal. The check does not
// reserve the name; the installation checks it again.
func runtimeCheckCommand(choice *apiclient.Choice) *cobra.Command {
	command := &cobra.Command{
		Use: "check-name NAME", Short: "Check whether a runtime name is valid and free", Args: cobra.ExactArgs(1),
		Long: "Checks whether a runtime name is valid and free, and proposes a free one. The exit code is 1 when the name cannot be used.",
	}
	command.RunE = apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
		if err := client.CheckName(command.Context(), args[0]); err != nil {
			return err
		}
		_, err := fmt.Fprintf(command.OutOrStdout(), "%s is free.\n", args[0])
		return err
	})
	return command
}

// runtimeConfigureCommand makes the runtime an Application of itself (R71): the
// runtime writes its chart and values to the Shared Configuration Repository
// and reconciles itself from there from then on. The request goes through the
// platform to the runtime, which must be online.
func runtimeConfigureCommand(choice *apiclient.Choice) *cobra.Command {
	return &cobra.Command{
		Use: "configure NAME", Short: "Make a runtime an Application of itself, kept in Git",
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.CompleteRuntimeArg,
		RunE: apiclient.WithClient(choice, func(command *cobra.Command, client *apiclient.Client, args []string) error {
			// The name becomes part of the request path, so it is checked
			// first.
			if err := wire.RuntimeName(args[0]); err != nil {
				return exit.UsageError{Err: err}
			}
			response, err := apiclient.Call(command.Context(), client, client.RuntimeAPI(args[0]).ConfigureAsApplication, &runtimev1.ConfigureAsApplicationRequest{})
			return printer.Done(command, err, "The runtime %s is the Application %s, with commit %s.", args[0], response.GetApplication(), printer.OrDash(printer.ShortRevision(response.GetCommit())))
		}),
	}
}
