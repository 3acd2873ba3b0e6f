package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/wire/platformv1"
)

// runtimeUpgradeCommand prints how a runtime is upgraded (R110).
func runtimeUpgradeCommand(choice *platformChoice) *cobra.Command {
	var release, chart, version string
	command := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Print what upgrades a runtime",
		Long: `Prints what upgrades a runtime. One that is an Application of itself is upgraded in
the Shared Configuration Repository; another one by Helm. Nothing is changed.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: choice.completeRuntimeArg,
	}
	flags := command.Flags()
	flags.StringVar(&release, "release", defaultRelease, "name of the Helm release")
	flags.StringVar(&chart, "chart", defaultChart, "where the chart is")
	flags.StringVar(&version, "chart-version", "", "version to upgrade to (default the newest that the platform knows of)")
	command.RunE = withPlatform(choice, nil, func(command *cobra.Command, client *platformClient, args []string) error {
		answer, err := ask(command.Context(), client, client.runtimes().GetRuntime, &platformv1.GetRuntimeRequest{Name: args[0]})
		if err != nil {
			return err
		}
		runtime := answer.GetRuntime()
		target := cmp.Or(version, runtime.GetUpdateAvailable())
		if target == "" {
			note(command, "The platform knows of no version that is newer than %s. Name one with --chart-version.", orNone(runtime.GetVersion()))
			return nil
		}
		pending := slices.Contains(runtime.GetPendingSteps(), platformv1.CompletionStep_COMPLETION_STEP_RUNTIME_APPLICATION)
		if pending || runtime.GetChartVersion() == "" {
			return printHelmUpgrade(command.OutOrStdout(), runtime, release, chart, target)
		}
		return client.printGitUpgrade(command, runtime, target)
	})
	return command
}

func printHelmUpgrade(w io.Writer, runtime *platformv1.Runtime, release, chart, version string) error {
	_, err := fmt.Fprintf(w, "helm upgrade %s %s --namespace %s --version %s --reuse-values --wait\n",
		shellWord(release), shellWord(chart), shellWord(runtime.GetNamespace()), shellWord(version))
	return err
}

// printGitUpgrade says which file has the version of a runtime that is an
// Application.
func (c *platformClient) printGitUpgrade(command *cobra.Command, runtime *platformv1.Runtime, version string) error {
	settings, err := ask(command.Context(), c, c.git().GetGitSettings, &platformv1.GetGitSettingsRequest{})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(command.OutOrStdout(), `# %[1]s is an Application of itself. In the Shared Configuration Repository
#   %[2]s
# set version and dependencies[0].version to %[3]s in
#   resources/%[1]s/chart/Chart.yaml
# and push. slipway app wait shows when it is done.
`, printable(runtime.GetName()), printable(orNone(settings.GetSettings().GetSharedRepository())), printable(version))
	return err
}
