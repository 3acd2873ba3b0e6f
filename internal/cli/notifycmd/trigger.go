package notifycmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/gitops/notify/message"
)

func triggerCommand(a *access) *cobra.Command {
	command := &cobra.Command{Use: "trigger", Aliases: []string{"triggers"}, Short: "List and evaluate triggers"}
	command.AddCommand(getTriggers(a), runTrigger(a))
	return command
}

// namedTrigger is a trigger as it is printed.
type namedTrigger struct {
	Name       string              `json:"name"`
	Conditions []message.Condition `json:"conditions"`
}

func getTriggers(a *access) *cobra.Command {
	return getCommand(a, kind[[]message.Condition, namedTrigger]{
		word: "trigger",
		examples: `  slipway notifications trigger get -n argocd
  slipway notifications trigger get on-deployed -n argocd -o yaml`,
		of: func(settings *notify.Settings) map[string][]message.Condition { return settings.Triggers },
		read: func(name string, conditions []message.Condition) (namedTrigger, error) {
			return namedTrigger{name, conditions}, nil
		},
		header: []string{"NAME", "TEMPLATE", "DESCRIPTION"},
		row: func(one namedTrigger) []string {
			var templates, descriptions []string
			for _, condition := range one.Conditions {
				templates, descriptions = append(templates, condition.Send...), append(descriptions, condition.Description)
			}
			return []string{one.Name, printer.OrDash(strings.Join(templates, ", ")), strings.TrimSpace(strings.Join(descriptions, " "))}
		},
	})
}

func runTrigger(a *access) *cobra.Command {
	command := &cobra.Command{
		Use:   "run NAME APPLICATION",
		Short: "Evaluate the conditions of a trigger for an Application",
		Long: `Evaluates each condition of a trigger for an Application, which is one of the cluster or a
file. Nothing is sent. The variable edge has what --edge-route and --edge-problem name.`,
		Example: `  slipway notifications trigger run on-sync-status-unknown shop -n argocd
  slipway notifications trigger run on-deployed apps/shop.yaml --config-map argocd-notifications-cm.yaml`,
		Args: twoNames,
		RunE: func(command *cobra.Command, args []string) error {
			defer a.close()
			trial, err := a.trial(command, args[1])
			if err != nil {
				return err
			}
			defer trial.Close()
			conditions, results, err := trial.Trigger(args[0])
			if err != nil {
				return err
			}
			for _, one := range results {
				if one.Problem != "" {
					printer.Note(command, "%s", one.Problem)
				}
			}
			at := -1
			return printer.List(command.OutOrStdout(), []string{"CONDITION", "RESULT", "ONCE PER"}, results, func(one message.Result) []string {
				at++
				return []string{conditions[at].When, fmt.Sprint(one.Triggered), printer.OrDash(one.OncePer)}
			})
		},
	}
	a.addEdge(command)
	return command
}
