package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// runtimeListCommand is `slipway runtime list` (R61).
func runtimeListCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{Use: "list", Short: "List the runtimes of the account", Args: cobra.NoArgs}
	output := newOutputFlag(command, outputJSON, outputYAML, outputName)
	command.RunE = withPlatform(choice, output, func(command *cobra.Command, client *platformClient, _ []string) error {
		all, err := client.allRuntimes(command.Context())
		if err != nil {
			return err
		}
		if output.form == outputName {
			for _, one := range all {
				if _, err := fmt.Fprintln(command.OutOrStdout(), printable(one.GetName())); err != nil {
					return err
				}
			}
			return nil
		}
		if len(all) == 0 {
			note(command, "The account has no runtime yet: slipway runtime install says how to make one.")
		}
		return showMessage(command, output, &platformv1.ListRuntimesResponse{Runtimes: all}, func(w io.Writer) error { return printRuntimes(w, all) })
	})
	return command
}

func printRuntimes(w io.Writer, runtimes []*platformv1.Runtime) error {
	if len(runtimes) == 0 {
		return nil
	}
	rows, flush := newTable(w)
	rows.row("NAME", "NAMESPACE", "CLUSTER", "MODE", "VERSION", "ONLINE", "SYNC_STATUS", "HEALTH", "INSTALLATION", "LAST_SEEN")
	for _, one := range runtimes {
		rows.row(one.GetName(), one.GetNamespace(), orNone(one.GetCluster()), modeWord(one.GetAccessMode()), shownVersion(one),
			yesNo(one.GetOnline()), enumWord(one.GetSync().String(), "SYNC_STATUS_"), enumWord(one.GetHealth().String(), "HEALTH_STATUS_"),
			installationWord(one), shownStamp(one.GetLastHeartbeatAt()))
	}
	return flush()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// enumWord is a value of an enum as people read it: Out of sync.
func enumWord(value, prefix string) string {
	word := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(value, prefix), "_", " "))
	if word == "" || word == "unspecified" {
		return "-"
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

func modeWord(mode platformv1.AccessMode) string {
	return strings.ToLower(enumWord(mode.String(), "ACCESS_MODE_"))
}

func installationWord(runtime *platformv1.Runtime) string {
	if runtime.GetUninstalling() {
		return "Uninstalling"
	}
	return enumWord(runtime.GetInstallation().String(), "INSTALLATION_STATUS_")
}

// shownVersion marks a runtime that could be newer (R112).
func shownVersion(runtime *platformv1.Runtime) string {
	version := orNone(runtime.GetVersion())
	if newer := runtime.GetUpdateAvailable(); newer != "" {
		version += " (" + newer + " is available)"
	}
	return version
}

// runtimeGetCommand is `slipway runtime get` (R62, R63).
func runtimeGetCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{
		Use: "get NAME", Short: "Show a runtime: components, Git Sources, clusters, and what is still to be done",
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.completeRuntimeArg,
	}
	output := newOutputFlag(command, outputJSON, outputYAML)
	command.RunE = withPlatform(choice, output, func(command *cobra.Command, client *platformClient, args []string) error {
		answer, err := ask(command.Context(), client, client.runtimes().GetRuntime, &platformv1.GetRuntimeRequest{Name: args[0]})
		if err != nil {
			return err
		}
		return showMessage(command, output, answer.GetRuntime(), func(w io.Writer) error { return printRuntime(w, answer.GetRuntime()) })
	})
	return command
}

func printRuntime(w io.Writer, one *platformv1.Runtime) error {
	facts, flush := newTable(w)
	facts.row("Name:", one.GetName())
	facts.row("Namespace:", one.GetNamespace())
	facts.row("Cluster:", orNone(one.GetCluster())+", Kubernetes "+orNone(one.GetKubernetesVersion()))
	facts.row("Version:", shownVersion(one))
	facts.row("Chart:", orNone(one.GetChartVersion()))
	facts.row("Access:", withMessage(modeWord(one.GetAccessMode()), one.GetAccessUrl()))
	if one.GetIngressClass() != "" {
		facts.row("Ingress class:", one.GetIngressClass())
	}
	online := "yes"
	if !one.GetOnline() {
		online = "no, last seen " + shownStamp(one.GetLastHeartbeatAt())
	}
	facts.row("Online:", online)
	facts.row("Registered:", shownStamp(one.GetRegisteredAt()))
	facts.row("Configuration runtime:", yesNo(one.GetConfigurationRuntime()))
	facts.row("Sync:", enumWord(one.GetSync().String(), "SYNC_STATUS_"))
	facts.row("Health:", withMessage(enumWord(one.GetHealth().String(), "HEALTH_STATUS_"), one.GetHealthMessage()))
	facts.row("Installation:", installationWord(one))
	if one.GetGitTokenExpiresAt() != nil {
		facts.row("Git token expires:", shownStamp(one.GetGitTokenExpiresAt()))
	}
	if err := flush(); err != nil {
		return err
	}
	for _, part := range []func(io.Writer, *platformv1.Runtime) error{printSteps, printComponents, printSources, printClusters} {
		if err := part(w, one); err != nil {
			return err
		}
	}
	return nil
}

// printSteps shows what is still to be done, with the command for it (R63).
func printSteps(w io.Writer, one *platformv1.Runtime) error {
	if len(one.GetPendingSteps()) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w)
	rows, flush := newTable(w)
	rows.row("STILL TO DO", "COMMAND")
	for _, step := range one.GetPendingSteps() {
		what, command := pendingStep(step, one.GetName())
		rows.row(what, command)
	}
	return flush()
}

// pendingStep says what a step is, and what does it.
func pendingStep(step platformv1.CompletionStep, runtime string) (what, command string) {
	switch step {
	case platformv1.CompletionStep_COMPLETION_STEP_GIT_CREDENTIALS:
		return "Git credentials of the runtime", "slipway integration git set-runtime-token --runtime " + runtime + " --token-file FILE"
	case platformv1.CompletionStep_COMPLETION_STEP_USER_TOKEN:
		return "Git token of a user", "slipway integration git register default --runtime " + runtime + " --token-file FILE"
	case platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION:
		return "Runtime as an Application", "slipway runtime configure " + runtime
	}
	return enumWord(step.String(), "COMPLETION_STEP_"), "update this program"
}

func printComponents(w io.Writer, one *platformv1.Runtime) error {
	if len(one.GetComponents()) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w)
	rows, flush := newTable(w)
	rows.row("COMPONENT", "VERSION", "SYNC", "HEALTH", "MESSAGE")
	for _, each := range one.GetComponents() {
		rows.row(each.GetName(), orNone(each.GetVersion()), enumWord(each.GetSync().String(), "SYNC_STATUS_"), enumWord(each.GetHealth().String(), "HEALTH_STATUS_"), each.GetHealthMessage())
	}
	return flush()
}

func printSources(w io.Writer, one *platformv1.Runtime) error {
	if len(one.GetGitSources()) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w)
	rows, flush := newTable(w)
	rows.row("GIT SOURCE", "REPOURL", "PATH", "SYNC", "HEALTH", "MESSAGE")
	for _, each := range one.GetGitSources() {
		rows.row(each.GetName(), each.GetRepoUrl(), orNone(each.GetPath()), enumWord(each.GetSync().String(), "SYNC_STATUS_"), enumWord(each.GetHealth().String(), "HEALTH_STATUS_"), each.GetMessage())
	}
	return flush()
}

func printClusters(w io.Writer, one *platformv1.Runtime) error {
	if len(one.GetClusters()) == 0 {
		return nil
	}
	_, _ = fmt.Fprintln(w)
	rows, flush := newTable(w)
	rows.row("CLUSTER", "SERVER", "VERSION", "STATUS", "MESSAGE")
	for _, each := range one.GetClusters() {
		rows.row(each.GetName(), each.GetServer(), orNone(each.GetVersion()), each.GetStatus(), each.GetMessage())
	}
	return flush()
}

// runtimeCheckCommand is `slipway runtime check-name` (R33).
func runtimeCheckCommand(choice *platformChoice) *cobra.Command {
	command := &cobra.Command{
		Use: "check-name NAME", Short: "Say whether a runtime can have a name", Args: cobra.ExactArgs(1),
		Long: "Says whether a runtime can have a name, and proposes a free one. It ends with 1 when the name cannot be had.",
	}
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		if err := client.freeName(command, args[0]); err != nil {
			return err
		}
		_, err := fmt.Fprintf(command.OutOrStdout(), "%s is free.\n", args[0])
		return err
	})
	return command
}

// freeName refuses a name that a runtime cannot have.
func (c *platformClient) freeName(command *cobra.Command, name string) error {
	answer, err := ask(command.Context(), c, c.runtimes().CheckName, &platformv1.CheckNameRequest{Name: name})
	if err != nil {
		return err
	}
	if !answer.GetFree() {
		return fmt.Errorf("%s: %s is free", printable(answer.GetReason()), printable(answer.GetProposal()))
	}
	return nil
}

// runtimeConfigureCommand makes the runtime an Application of itself (R71).
func runtimeConfigureCommand(choice *platformChoice) *cobra.Command {
	return &cobra.Command{
		Use: "configure NAME", Short: "Make a runtime an Application of itself, kept in Git",
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.completeRuntimeArg,
		RunE: withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
			if err := wire.RuntimeName(args[0]); err != nil {
				return usageError{err}
			}
			answer, err := ask(command.Context(), client, client.runtimeAPI(args[0]).ConfigureAsApplication, &runtimev1.ConfigureAsApplicationRequest{})
			if err == nil {
				note(command, "The runtime %s is the Application %s, with commit %s.", args[0], answer.GetApplication(), orNone(shortRevision(answer.GetCommit())))
			}
			return err
		}),
	}
}
