package diagnosecmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/cli/prompt"
	"slipway.dev/slipway/internal/cli/report"
	"slipway.dev/slipway/internal/preflight"
)

// fixTimeout bounds one change of --fix, so that one that hangs does not keep
// the rest from being applied.
const fixTimeout = 30 * time.Second

// Preflight returns the command slipway preflight. In table form every check is
// printed as soon as it and those before it have ended, because DNS and TLS
// checks take a while.
func Preflight() *cobra.Command {
	given := &preflightFlags{}
	command := &cobra.Command{
		Use:   "preflight",
		Short: "Check what a runtime needs, before and after it is installed",
		Long: `Checks the cluster, the Ingress controller, the host, DNS, certificates, the account
and the Git provider, and reports for each of the checks P1 to P28 the checked object,
the problem and the fix. Checks change nothing. The controller is detected by the
IngressClass; Ambassador, AWS ALB, Istio, NGINX Enterprise, NGINX Community, Traefik
and Slipway's own edge are known, and each is checked against the requirements of its
documentation. Before the installation a name that does not resolve yet is a warning,
afterwards it is an error.

With --stage after everything that no flag gives comes from the installed release: the
access mode, hosts, class and gateway, and the name of the runtime. With --runtime the
platform names its namespace.

With --fix it shows the repairs that it can make, asks for confirmation, makes them
and checks again. The exit code is 1 when a check fails.`,
		Example: `  slipway preflight
  slipway preflight --mode ingress --host prod.example.com --ingress-class nginx
  slipway preflight --stage after
  slipway preflight --stage after --runtime prod --fix
  slipway preflight --mode mesh --ingress-url https://prod.example.com --gateway istio-system/public
  slipway preflight --mode ingress --host prod.example.com --ingress-class nginx --only P16,P21 -o json`,
		Args: cobra.NoArgs,
	}
	given.add(command)
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = func(command *cobra.Command, _ []string) error {
		world, options, closeWorld, err := given.open(command)
		if err != nil {
			return err
		}
		defer closeWorld()
		if output.Form == printer.FormTable {
			// Other forms are one document, which is encoded when all results
			// are there.
			options.Found = func(result preflight.Result) { report.Check(command.OutOrStdout(), result) }
		}
		results := preflight.Run(command.Context(), world, options)
		if given.fix {
			if results, err = repair(command, given.yes, results, func(again []preflight.Code) []preflight.Result {
				// Only the checks with fixes run again; the rest did not
				// change.
				options.Only = again
				return preflight.Run(command.Context(), world, options)
			}); err != nil {
				return err
			}
		}
		return finishPreflight(command, output, results)
	}
	return command
}

// finishPreflight prints the results in the forms other than the table, and
// returns the exit status. An interrupt wins: the checks that it cut short
// would be reported as failures.
func finishPreflight(command *cobra.Command, output *printer.Output, results []preflight.Result) error {
	if err := context.Cause(command.Context()); err != nil {
		return err
	}
	if output.Form != printer.FormTable {
		if err := output.Encode(command.OutOrStdout(), map[string]any{"results": results}); err != nil {
			return err
		}
	}
	if wrong := preflight.Errors(results); wrong > 0 {
		return exit.Status{Code: exit.Failure, Err: fmt.Errorf("%d of %d checks failed", wrong, len(results))}
	}
	return nil
}

// repair shows the fixes that can be applied, asks for confirmation, applies
// them, and runs their checks again. It returns the results with the repeated
// checks replaced.
func repair(command *cobra.Command, yes bool, results []preflight.Result, again func([]preflight.Code) []preflight.Result) ([]preflight.Result, error) {
	var fixes []preflight.Finding
	var codes []preflight.Code
	for _, result := range results {
		for _, found := range result.Findings {
			// Most findings are for the user to repair, and have a text
			// instead.
			if found.Apply != nil {
				fixes = append(fixes, found)
				codes = append(codes, result.Code)
			}
		}
	}
	if len(fixes) == 0 {
		printer.Note(command, "There is nothing that --fix can repair.")
		return results, nil
	}
	for _, fix := range fixes {
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "%s %s: will %s\n", fix.Code, printer.Printable(fix.Subject), printer.PrintableLines(asSentence(fix.Plan)))
	}
	// One prompt for all changes, after all of them are shown.
	if err := prompt.New(command).Confirm("Make "+finding.Count(len(fixes), "change", "changes")+"?", yes); err != nil {
		return nil, err
	}
	// Fixes are independent, so an error does not stop the rest; the checks are
	// not repeated then.
	var problems []error
	for _, fix := range fixes {
		ctx, cancel := context.WithTimeout(command.Context(), fixTimeout)
		err := fix.Apply(ctx)
		cancel()
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", fix.Code, fix.Subject, err))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	printer.Note(command, "%s. Checking again:", finding.Count(len(fixes), "change was made", "changes were made"))
	return replaceResults(results, again(codes)), nil
}

// asSentence formats a planned fix so that it reads after the word "will": a
// manifest is applied, and any other plan is a verb phrase already.
func asSentence(plan string) string {
	if strings.HasPrefix(plan, "apiVersion:") {
		return "apply:\n" + plan
	}
	return plan
}

// replaceResults replaces results by newer ones of the same check and keeps the
// order. It changes results in place.
func replaceResults(results, newer []preflight.Result) []preflight.Result {
	for _, result := range newer {
		for i := range results {
			if results[i].Code == result.Code {
				results[i] = result
			}
		}
	}
	return results
}
