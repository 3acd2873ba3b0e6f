package notifycmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/notify"
	"slipway.dev/slipway/internal/gitops/notify/message"
)

// console is the recipient that prints a message, with the word of argocd.
const console = "console:stdout"

// maxPreview bounds a template in a list.
const maxPreview = 60

func templateCommand(a *access) *cobra.Command {
	command := &cobra.Command{Use: "template", Aliases: []string{"templates"}, Short: "List, render and send templates"}
	command.AddCommand(getTemplates(a), notifyTemplate(a))
	return command
}

// namedTemplate is a template as it is printed.
type namedTemplate struct {
	Name     string         `json:"name"`
	Template map[string]any `json:"template"`
}

func getTemplates(a *access) *cobra.Command {
	return getCommand(a, kind[string, namedTemplate]{
		word: "template",
		examples: `  slipway notifications template get -n argocd
  slipway notifications template get app-deployed -n argocd -o yaml`,
		of: func(settings *notify.Settings) map[string]string { return settings.Templates },
		read: func(name, text string) (namedTemplate, error) {
			one := namedTemplate{Name: name}
			return one, yaml.Unmarshal([]byte(text), &one.Template)
		},
		header: []string{"NAME", "PREVIEW"},
		row: func(one namedTemplate) []string {
			text, _ := one.Template["message"].(string)
			preview := []rune(strings.Join(strings.Fields(text), " "))
			if len(preview) > maxPreview {
				preview = append(preview[:maxPreview], '…')
			}
			return []string{one.Name, printer.OrDash(string(preview))}
		},
	})
}

func notifyTemplate(a *access) *cobra.Command {
	var recipient string
	var dryRun bool
	command := &cobra.Command{
		Use:   "notify NAME APPLICATION",
		Short: "Render a template for an Application, and print or send it",
		Long: `Renders a template for an Application, which is one of the cluster or a file, and prints the
message. With --recipient it is sent to a service of the settings; with --dry-run what would be
sent is printed instead. The agent does not know of it: it sends its own messages as before.`,
		Example: `  slipway notifications template notify app-deployed shop -n argocd
  slipway notifications template notify app-deployed shop -n argocd --recipient slack:my-channel --dry-run`,
		Args: twoNames,
		RunE: func(command *cobra.Command, args []string) error {
			service, whom, _ := strings.Cut(recipient, ":")
			to := notify.Destination{Service: service, Recipient: whom}
			defer a.close()
			trial, err := a.trial(command, args[1])
			if err != nil {
				return err
			}
			defer trial.Close()
			if dryRun || recipient == console {
				rendered, err := trial.Render(args[0], to)
				if err != nil {
					return err
				}
				return printMessage(command.OutOrStdout(), rendered)
			}
			if err := trial.Send(command.Context(), args[0], to); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%s sent to %s\n", printer.Printable(args[0]), printer.Printable(recipient))
			return err
		},
	}
	command.Flags().StringVar(&recipient, "recipient", console, "service and recipient, with a colon in between; "+console+" prints it")
	command.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be sent")
	a.addEdge(command)
	return command
}

// printMessage prints the text, and the section of the service behind it.
func printMessage(w io.Writer, of *message.Message) error {
	if of.Text != "" {
		if _, err := fmt.Fprintln(w, strings.TrimRight(printer.PrintableLines(of.Text), "\n")); err != nil {
			return err
		}
	}
	if of.Section == nil {
		return nil
	}
	var section any
	if err := json.Unmarshal(of.Section, &section); err != nil {
		return err
	}
	return printer.WriteJSON(w, section)
}
