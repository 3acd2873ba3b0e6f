package edgecmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/route"
)

const (
	// requestTimeout bounds a request to the admin server, from connecting to
	// the last byte of the body.
	requestTimeout = 30 * time.Second
	// maxResponseBytes bounds a response, so that a wrong address that streams
	// without end cannot fill the memory.
	maxResponseBytes = 64 << 20
	// rulesPerPage is the page size of the rules. A page that is not full is
	// the last one.
	rulesPerPage = 1000
)

// adminCommands returns the commands that query a running edge.
func adminCommands() []*cobra.Command {
	commands := []*cobra.Command{explainCommand(), routesCommand()}
	for _, command := range commands {
		// The edge has a help function of its own, which its subcommands would
		// inherit.
		command.SetHelpFunc(func(command *cobra.Command, _ []string) { command.Root().HelpFunc()(command, nil) })
	}
	return commands
}

// adminClient queries the admin server of a running edge. It holds the values
// of the flags, so each command has its own.
type adminClient struct {
	address string
	output  string
}

// flags adds the flags that all queries have. The default address is that of
// the edge's own options, so a query on the same machine needs no flag.
func (c *adminClient) flags(command *cobra.Command) {
	var edge config.Edge
	edge.Defaults()
	command.Flags().StringVar(&c.address, "admin", edge.Admin.Address, "address of the edge's admin server")
	command.Flags().StringVar(&c.output, "output", "text", "output format: text or json")
}

// get fetches one page of the admin API and decodes the JSON into value. It
// uses no proxy: the server is on this machine, or forwarded to it. A response
// other than 200 is an error with the message of the server.
func (c *adminClient) get(ctx context.Context, page string, values url.Values, value any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	target := url.URL{Scheme: "http", Host: c.address, Path: admin.Prefix + page, RawQuery: values.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return exit.UsageError{Err: fmt.Errorf("--admin %q is not an address such as 127.0.0.1:8090", c.address)}
	}
	// A transport of its own: http.DefaultTransport would use the proxy of the
	// environment. A command sends few requests, so connections are not kept.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("cannot reach the admin server at %s: %w: is slipway edge running, and is this its admin.address?", c.address, err)
	}
	defer response.Body.Close()
	// One byte more than the bound, to distinguish a response of exactly that
	// size from a larger one.
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes+1))
	if err != nil {
		return fmt.Errorf("reading the response of the admin server at %s failed: %w", c.address, err)
	}
	if len(text) > maxResponseBytes {
		return fmt.Errorf("the response of the admin server is larger than %d MiB", maxResponseBytes>>20)
	}
	if response.StatusCode != http.StatusOK {
		return refusedResponse(response.StatusCode, text)
	}
	if err := json.Unmarshal(text, value); err != nil {
		return fmt.Errorf("the admin server at %s does not speak this version's API: %w", c.address, err)
	}
	return nil
}

// refusedResponse returns the error of a response that is not 200. The text
// comes from the network, so control characters are escaped and an unknown body
// is cut. Status 400 is a usage error: the server found the query wrong.
func refusedResponse(status int, text []byte) error {
	var failure struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &failure) != nil || failure.Error == "" {
		failure.Error = fmt.Sprintf("status %d: %.200s", status, text)
	}
	err := errors.New("the admin server refuses: " + printer.Printable(strings.TrimSpace(failure.Error)))
	if status == http.StatusBadRequest {
		return exit.UsageError{Err: err}
	}
	return err
}

// checkOutput refuses an output format that does not exist. Commands call it
// first, so that a typo sends no request.
func (c *adminClient) checkOutput() error {
	if c.output != "text" && c.output != "json" {
		return exit.UsageError{Err: fmt.Errorf("--output %q is neither text nor json", c.output)}
	}
	return nil
}

// explainCommand returns the command slipway edge explain, which shows how a
// running edge would route a request. The edge evaluates its current table;
// nothing is sent to a backend.
func explainCommand() *cobra.Command {
	client := &adminClient{}
	var method, entryPoint, from string
	var headers []string
	command := &cobra.Command{
		Use:   "explain URL",
		Short: "Explain how a running edge handles a request",
		Long: `Queries a running edge for how it would handle a request: how it is parsed, which
rule matches and why, why the others do not, and which policies and endpoints
apply. No request is sent to a backend.`,
		Example: `  slipway edge explain https://shop.example.com/cart
  slipway edge explain http://shop.example.com/ --method POST --header 'X-Tenant: blue'`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := client.checkOutput(); err != nil {
				return err
			}
			// An empty entry point lets the edge choose the first that fits the
			// URL.
			values := url.Values{"url": args, "method": {method}, "header": headers}
			if entryPoint != "" {
				values.Set("entryPoint", entryPoint)
			}
			if from != "" {
				values.Set("client", from)
			}
			var explanation admin.Explanation
			if err := client.get(command.Context(), "explain", values, &explanation); err != nil {
				return err
			}
			if client.output == "json" {
				return printer.WriteJSON(command.OutOrStdout(), explanation)
			}
			_, err := io.WriteString(command.OutOrStdout(), explanation.Prose())
			return err
		},
	}
	client.flags(command)
	command.Flags().StringVar(&method, "method", "GET", "method of the request")
	command.Flags().StringVar(&from, "client", "", "address of the client, for rules that depend on it")
	command.Flags().StringArrayVar(&headers, "header", nil, "header of the request, as 'Name: value'; may be repeated")
	command.Flags().StringVar(&entryPoint, "entry-point", "", "entry point of the request, or a listener such as infra/public:80; when empty, the first that matches the URL")
	return command
}

// routesCommand returns the command slipway edge routes, which lists the rules
// of the table that a running edge serves.
func routesCommand() *cobra.Command {
	client := &adminClient{}
	var host, search string
	command := &cobra.Command{
		Use:   "routes",
		Short: "List the rules that a running edge serves",
		Long: `Lists the rules of a running edge by host, and for each host in the order of
evaluation.`,
		Example: `  slipway edge routes --host shop.example.com
  slipway edge routes --search cart`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := client.checkOutput(); err != nil {
				return err
			}
			rules, err := client.rules(command.Context(), host, search)
			if err != nil {
				return err
			}
			if client.output == "json" {
				return printer.WriteJSON(command.OutOrStdout(), rules)
			}
			return printRules(command.OutOrStdout(), rules)
		},
	}
	client.flags(command)
	command.Flags().StringVar(&host, "host", "", "only rules of this host")
	command.Flags().StringVar(&search, "search", "", "only rules with this text in their name, host, path or backends")
	return command
}

// rules returns all rules, page by page. The pages are not one snapshot: a
// table that is swapped in between may repeat or skip a rule, which a listing
// for people can bear.
func (c *adminClient) rules(ctx context.Context, host, search string) ([]admin.RuleInfo, error) {
	// Not nil: an edge without rules prints [] in JSON.
	rules := []admin.RuleInfo{}
	for {
		values := url.Values{"limit": {strconv.Itoa(rulesPerPage)}, "offset": {strconv.Itoa(len(rules))}}
		if host != "" {
			values.Set("host", host)
		}
		if search != "" {
			values.Set("q", search)
		}
		var page struct{ Items []admin.RuleInfo }
		if err := c.get(ctx, "rules", values, &page); err != nil {
			return nil, err
		}
		rules = append(rules, page.Items...)
		if len(page.Items) < rulesPerPage {
			return rules, nil
		}
	}
}

// printRules prints one rule per line. Names and hosts come from objects of the
// cluster, so control characters are escaped before they reach the terminal.
func printRules(w io.Writer, rules []admin.RuleInfo) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HOST\tPATH\tRULE\tPOLICIES\tTO")
	for _, rule := range rules {
		cells := []string{orAll(rule.Host), pathCell(rule), rule.Name, strings.Join(rule.Policies, ","), targetCell(rule)}
		for i := range cells {
			cells[i] = printer.Printable(cells[i])
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// orAll shows a rule for all hosts as an asterisk.
func orAll(host string) string {
	return cmp.Or(host, "*")
}

// pathCell describes the path of a rule in short, with the number of its other
// conditions, such as headers or methods. A fallback rule has no path of its
// own to show.
func pathCell(rule admin.RuleInfo) string {
	path := rule.Match.Path
	text := path.Value
	switch path.Type {
	case "":
		text = "*"
	case route.PathPrefix:
		text += " (prefix)"
	default:
		text += " (" + string(path.Type) + ")"
	}
	// The fallback matches requests that no rule of the host matches, so its
	// path means nothing.
	if rule.Fallback {
		text = "(fallback)"
	}
	if count := rule.Match.Conditions(); count > 0 {
		text += fmt.Sprintf(" +%d", count)
	}
	return text
}

// targetCell describes the target of a rule: its backends, or the status of a
// fixed response. Weights are shown only where there are several backends to
// share the traffic.
func targetCell(rule admin.RuleInfo) string {
	if rule.Response != nil {
		return strings.TrimSpace(strconv.Itoa(rule.Response.Status) + " " + string(rule.Response.Reason))
	}
	var names []string
	for _, backend := range rule.Backends {
		name := backend.Name
		if len(rule.Backends) > 1 {
			name += "*" + strconv.FormatUint(uint64(backend.Weight), 10)
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}
