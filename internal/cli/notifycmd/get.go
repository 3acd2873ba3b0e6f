package notifycmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/gitops/notify"
)

// kind is one kind of settings, which have names: of returns them, and read makes of one
// what is printed.
type kind[V, T any] struct {
	word string
	// examples are the command lines of the help.
	examples string
	of       func(*notify.Settings) map[string]V
	read     func(name string, value V) (T, error)
	header   []string
	// row is a line of the table, with the name in its first cell.
	row func(T) []string
}

// getCommand returns the command that lists the settings of a kind, or shows one of them.
// Names come from the merged settings, so that built-in ones are listed as the agent uses
// them, and an error of one that does not exist lists those that do.
func getCommand[V, T any](a *access, settingsOf kind[V, T]) *cobra.Command {
	command := &cobra.Command{
		Use:     "get [NAME]",
		Aliases: []string{"list"},
		Short:   "List the " + settingsOf.word + "s, with those that need no setting",
		Example: settingsOf.examples,
		Args:    cobra.MaximumNArgs(1),
	}
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML, printer.FormName)
	command.RunE = func(command *cobra.Command, args []string) error {
		defer a.close()
		settings, err := a.settings(command)
		if err != nil {
			return err
		}
		list, err := settingsOf.list(settings, args)
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		switch output.Form {
		case printer.FormJSON, printer.FormYAML:
			return output.Encode(out, list)
		case printer.FormName:
			for _, one := range list {
				if _, err := fmt.Fprintln(out, settingsOf.row(one)[0]); err != nil {
					return err
				}
			}
			return nil
		}
		return printer.List(out, settingsOf.header, list, settingsOf.row)
	}
	return command
}

// list reads the settings, sorted by name, or the one that is given.
func (k kind[V, T]) list(settings *notify.Settings, args []string) ([]T, error) {
	all := k.of(settings)
	names := slices.Sorted(maps.Keys(all))
	if len(args) > 0 {
		if _, known := all[args[0]]; !known {
			return nil, fmt.Errorf("there is no %s %q: there are %s", k.word, args[0], strings.Join(names, ", "))
		}
		names = args
	}
	var list []T
	for _, name := range names {
		one, err := k.read(name, all[name])
		if err != nil {
			return nil, fmt.Errorf("the %s %s: %w", k.word, name, err)
		}
		list = append(list, one)
	}
	return list, nil
}
