package diagnosecmd

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/offline"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/controller"
)

// Explain returns the command slipway explain. It builds the routing table of
// the edge in this process and evaluates the request there, so it needs no
// running edge.
func Explain() *cobra.Command {
	given := &offline.Flags{}
	var method, entryPoint, from string
	var headers []string
	output := "text"
	command := &cobra.Command{
		Use:   "explain URL",
		Short: "Explain which Ingress or route, rule and Service handle a request",
		Long: `Reads the Ingresses, Gateways and routes of a cluster, or manifests with -f, as the
edge does, and explains how a request would be handled: the Ingress or route and the
rule that match and why, its policies, Service, endpoints and certificate, and why
others do not match. The cluster is that of KUBECONFIG, or of the options of the edge.
No request is sent. To query a running edge, use slipway edge explain.`,
		Example: `  slipway explain https://shop.example.com/cart
  slipway explain http://shop.example.com/ -f deploy/ --method POST --header 'X-Tenant: blue'`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return exit.UsageError{Err: fmt.Errorf("--output %q is neither text nor json", output)}
			}
			judge, err := given.Load(command)
			if err != nil {
				return err
			}
			defer judge.Close()
			values := url.Values{"url": args, "method": {method}, "header": headers}
			if entryPoint != "" {
				values.Set("entryPoint", entryPoint)
			}
			if from != "" {
				values.Set("client", from)
			}
			// The parameters are those of the edge's admin API, which evaluates
			// them with the same code.
			explanation, err := judge.Explain(values)
			if err != nil {
				// The table is built, so an error is about the request in the
				// arguments.
				return exit.UsageError{Err: err}
			}
			if output == "json" {
				return printer.WriteJSON(command.OutOrStdout(), explanation)
			}
			_, err = io.WriteString(command.OutOrStdout(), explanation.Explanation.Prose()+siteText(explanation))
			return err
		},
	}
	given.Add(command)
	command.Flags().StringVar(&method, "method", "GET", "method of the request")
	command.Flags().StringVar(&from, "client", "", "address of the client, for rules that depend on it")
	command.Flags().StringArrayVar(&headers, "header", nil, "header of the request, as 'Name: value'; may be repeated")
	command.Flags().StringVar(&entryPoint, "entry-point", "", "entry point of the request, or listener such as infra/public:80; when empty, the first that matches the URL")
	command.Flags().StringVar(&output, "output", output, "output format: text or json")
	return command
}

// siteText formats the facts that the cluster adds to the explanation of the
// routing: certificate, refusals, and Ingresses of other controllers with the
// same host. It is empty if there are none.
func siteText(e *controller.Explanation) string {
	var out strings.Builder
	// Messages quote objects of the cluster, so each line is escaped for the
	// terminal.
	line := func(format string, args ...any) {
		out.WriteString(printer.Printable(fmt.Sprintf(format, args...)) + "\n")
	}
	switch {
	case e.Certificate != nil:
		line("The certificate is that of Secret %s, good until %s.", e.Certificate.Secret, e.Certificate.NotAfter.Format(time.DateOnly))
	// Not a refusal: the edge completes the handshake with its default
	// certificate, which clients then reject.
	case e.Request.TLS:
		line("No Ingress has a certificate for this host: clients get the default one.")
	}
	if len(e.Refusals) > 0 {
		line("Refused:")
	}
	for _, refusal := range e.Refusals {
		line("  %s %s: %s", refusal.Object, refusal.Field, refusal.Message)
	}
	// Ingresses of other controllers may serve the same host elsewhere, which
	// explains a request that this edge never receives.
	for _, other := range e.Others {
		line("%s.", other)
	}
	if out.Len() == 0 {
		return ""
	}
	return "\n" + out.String()
}
