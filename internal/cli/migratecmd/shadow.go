package migratecmd

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/shadow"
)

// formHTML is the form of a page for a browser.
const formHTML = "html"

// mirrorHeadTimeout and mirrorTimeout bound the request of a mirror.
const mirrorHeadTimeout, mirrorTimeout = 10 * time.Second, 30 * time.Second

// shadowFlags are the flags of slipway migrate shadow.
type shadowFlags struct {
	old, new                   []string
	accessLog, listen          string
	logFormat, host            string
	methods                    []string
	ignoredHeaders, ignored    []string
	admin, entryPoint, caFile  string
	routeOnly, insecure        bool
	forwardClient              bool
	rate                       float64
	concurrency, retries       int
	maxCopies, maxBody         int64
	duration, timeout, refresh time.Duration
	output                     *printer.Output
}

// shadowCommand returns the command slipway migrate shadow.
func shadowCommand() *cobra.Command {
	given := &shadowFlags{}
	command := &cobra.Command{
		Use:   "shadow",
		Short: "Compare the responses of an old controller and of an edge with copies of live requests",
		Long: `Sends copies of live requests to an old controller and to an edge, and reports which
responses differ, before any client uses the edge. Copies come from the access log of the
old controller, or from its mirror. Status, target of redirects, headers, cookies and the
hash of the body are compared. Differences are grouped by cause, host and route, with an
example. A difference counts when it is seen again in each retry; parts in which the old
controller differs from itself are listed as unstable.

Only requests with the methods GET, HEAD and OPTIONS are sent. Each of them reaches the
backends twice more, once through each controller, and again for each retry of a
difference. With --route-only nothing is sent: the backend that the access log has is
compared with the one that the edge would choose.

--methods allows other methods. A POST is then carried out three times: by the client,
through the old controller and through the edge. Allow it only where the backends can
take that. Such requests are not retried.

Cookies and credentials of copies are sent on, and are not in the report.

The exit code is 0 when no response differs, 1 when one differs, and 2 when nothing could
be compared.`,
		Example: `  slipway migrate shadow --old http://10.0.0.5 --new http://10.0.0.9 --access-log access.log
  kubectl logs -f -n ingress-nginx deploy/ingress-nginx-controller | slipway migrate shadow --old https://10.0.0.5 --new https://10.0.0.9 --access-log - --duration 1h
  slipway migrate shadow --old http://10.0.0.5 --new http://10.0.0.9 --listen :8081 --duration 1h -o html > shadow.html
  slipway migrate shadow --route-only --admin 127.0.0.1:8090 --access-log access.log`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return given.run(command) },
	}
	given.addSources(command)
	given.addComparison(command)
	given.output = printer.NewOutput(command, printer.FormJSON, printer.FormYAML, formHTML)
	return command
}

// addSources adds the flags of the copies and of the controllers.
func (f *shadowFlags) addSources(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&f.old, "old", nil, "address of the old controller, such as https://10.0.0.5; twice for http and https")
	flags.StringArrayVar(&f.new, "new", nil, "address of the edge, such as https://10.0.0.9; twice for http and https")
	flags.StringVar(&f.accessLog, "access-log", "", "access log of the old controller, - for the input")
	flags.StringVar(&f.listen, "listen", "", "address at which copies of a mirror are accepted, such as :8081")
	flags.StringVar(&f.logFormat, "log-format", "", "format of the access log, with nginx's variables; when empty, each line is recognised by its form")
	flags.StringVar(&f.host, "host", "", "host of log lines without one; when empty, --admin finds it by the backend")
	flags.StringSliceVar(&f.methods, "methods", shadow.SafeMethods(), "methods that are sent; POST, PUT, PATCH and DELETE change data, once through each controller")
	flags.StringVar(&f.caFile, "ca-file", "", "file with the certificates that both controllers are verified with")
	flags.BoolVar(&f.insecure, "insecure", false, "do not verify the certificates of the controllers")
	flags.BoolVar(&f.forwardClient, "forwarded-for", false, "send the address of the client in X-Forwarded-For, for controllers that trust this machine")
	flags.StringVar(&f.admin, "admin", "", "address of the edge's admin server, which names the rules and backends of requests")
	flags.StringVar(&f.entryPoint, "entry-point", "", "entry point of the edge for --admin; when empty, the first that matches the scheme")
}

// addComparison adds the flags of the comparison.
func (f *shadowFlags) addComparison(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&f.routeOnly, "route-only", false, "send nothing: compare the backend of the access log with that of --admin")
	flags.StringSliceVar(&f.ignoredHeaders, "ignore-header", nil, "header of responses that is not compared; may be repeated")
	flags.StringSliceVar(&f.ignored, "ignore", nil, "cause that is not reported, such as body or 'header added'; may be repeated")
	flags.Float64Var(&f.rate, "rate", 50, "copies in a second, with retries; 0 for no limit")
	flags.IntVar(&f.concurrency, "concurrency", 8, "copies that are compared at a time")
	flags.IntVar(&f.retries, "retries", 2, "how often a difference must be seen again")
	flags.Int64Var(&f.maxCopies, "max", 0, "stop after this number of copies; 0 for no limit")
	flags.Int64Var(&f.maxBody, "max-body", 1<<20, "bytes of a body that are compared")
	flags.DurationVar(&f.duration, "duration", 0, "stop after this time; 0 for the end of the log")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "time for a response")
	flags.DurationVar(&f.refresh, "progress", 10*time.Second, "interval of progress lines; 0 for none")
}

// run compares, and prints the report.
func (f *shadowFlags) run(command *cobra.Command) error {
	options, err := f.options()
	if err != nil {
		return exit.UsageError{Err: err}
	}
	for _, target := range slices.Concat(options.Old, options.New) {
		defer target.Close()
	}
	options.Progress = func(counts shadow.Counts) {
		printer.Note(command, "%d compared: %d differ, %d unstable, %d skipped", counts.Compared, counts.Different, counts.Unstable, counts.Skipped)
	}
	source, err := f.source(command)
	if err != nil {
		return exit.Status{Code: exit.Usage, Err: err}
	}
	report, err := shadow.Run(command.Context(), options, source)
	if err != nil {
		return exit.Status{Code: exit.Usage, Err: err}
	}
	if err := f.print(command, report); err != nil {
		return exit.Status{Code: exit.Usage, Err: err}
	}
	return shadowResult(report)
}

// shadowResult returns the exit code of a report. An empty comparison is no success: a job
// that reads the wrong file must not pass.
func shadowResult(report *shadow.Report) error {
	switch {
	case report.Compared == 0:
		return exit.Status{Code: exit.Usage, Err: errors.New("no request was compared")}
	case report.Failed == report.Compared:
		return exit.Status{Code: exit.Usage, Err: errors.New("neither controller responded to any request: check --old and --new")}
	case report.Different > 0:
		return exit.Status{Code: exit.Different, Err: errors.New(finding.Count(int(report.Different), "request gets another response", "requests get another response"))}
	}
	return nil
}

// options checks the flags.
func (f *shadowFlags) options() (shadow.Options, error) {
	options := shadow.Options{
		RouteOnly: f.routeOnly, Rate: f.rate, Concurrency: f.concurrency, Retries: f.retries, Max: f.maxCopies, Interval: f.refresh,
		Compare: shadow.NewComparer(f.ignoredHeaders, f.ignored),
	}
	for _, method := range f.methods {
		options.Methods = append(options.Methods, strings.ToUpper(strings.TrimSpace(method)))
	}
	switch {
	case (f.accessLog == "") == (f.listen == ""):
		return options, errors.New("choose one of --access-log and --listen")
	case f.routeOnly && (f.admin == "" || f.accessLog == ""):
		return options, errors.New("--route-only needs --admin and --access-log: the log has the backend of the old controller")
	case !f.routeOnly && (len(f.old) == 0 || len(f.new) == 0):
		return options, errors.New("--old and --new are missing: the addresses of both controllers")
	case f.rate < 0 || f.concurrency < 1 || f.retries < 0 || f.maxBody < 1 || f.timeout <= 0:
		return options, errors.New("--rate, --concurrency, --retries, --max-body and --timeout cannot be negative, and only the rate and the retries can be 0")
	}
	for _, cause := range f.ignored {
		if !slices.Contains(shadow.Causes(), strings.TrimSpace(cause)) {
			return options, fmt.Errorf("--ignore %q is no cause: choose one of %s", cause, strings.Join(shadow.Causes(), ", "))
		}
	}
	if f.admin != "" {
		router := newAdminRouter(f.admin, f.entryPoint)
		options.Router, options.Hosts = router, router
	}
	err := f.targets(&options)
	return options, err
}

// targets adds the controllers.
func (f *shadowFlags) targets(options *shadow.Options) error {
	settings := shadow.TargetOptions{Timeout: f.timeout, MaxBody: f.maxBody, Insecure: f.insecure, ForwardClient: f.forwardClient}
	text, err := files.ReadAuthorities(f.caFile)
	if err != nil {
		return fmt.Errorf("--ca-file: %w", err)
	}
	if text != nil {
		settings.Roots = x509.NewCertPool()
		settings.Roots.AppendCertsFromPEM(text)
	}
	for _, side := range []struct {
		flag      string
		addresses []string
		targets   *[]*shadow.Target
	}{{"--old", f.old, &options.Old}, {"--new", f.new, &options.New}} {
		for _, address := range side.addresses {
			target, err := shadow.NewTarget(address, settings)
			if err != nil {
				return fmt.Errorf("%s: %w", side.flag, err)
			}
			*side.targets = append(*side.targets, target)
		}
	}
	return nil
}

// source returns the function that submits the copies. The duration ends the copies and not
// the comparison of those that wait.
func (f *shadowFlags) source(command *cobra.Command) (func(context.Context, *shadow.Intake) error, error) {
	if f.listen != "" {
		listener, err := net.Listen("tcp", f.listen)
		if err != nil {
			return nil, fmt.Errorf("--listen: %w", err)
		}
		printer.Note(command, "copies are accepted at http://%s", listener.Addr())
		return f.bounded(func(ctx context.Context, intake *shadow.Intake) error { return serveMirror(ctx, listener, intake) }), nil
	}
	parser := &shadow.LogParser{Host: f.host}
	if f.logFormat != "" {
		format, err := shadow.CompileLogFormat(f.logFormat)
		if err != nil {
			return nil, fmt.Errorf("--log-format: %w", err)
		}
		parser.Format = format
	}
	if f.accessLog == "-" {
		return f.bounded(func(ctx context.Context, intake *shadow.Intake) error {
			return shadow.ReadLog(ctx, command.InOrStdin(), parser, intake)
		}), nil
	}
	file, err := os.Open(f.accessLog)
	if err != nil {
		return nil, fmt.Errorf("--access-log: %w", err)
	}
	return f.bounded(func(ctx context.Context, intake *shadow.Intake) error {
		defer file.Close()
		return shadow.ReadLog(ctx, file, parser, intake)
	}), nil
}

// bounded ends a source after the duration.
func (f *shadowFlags) bounded(source func(context.Context, *shadow.Intake) error) func(context.Context, *shadow.Intake) error {
	if f.duration <= 0 {
		return source
	}
	return func(ctx context.Context, intake *shadow.Intake) error {
		ctx, cancel := context.WithTimeout(ctx, f.duration)
		defer cancel()
		return source(ctx, intake)
	}
}

// serveMirror accepts copies until the context is done, or until there are enough.
func serveMirror(ctx context.Context, listener net.Listener, intake *shadow.Intake) error {
	server := &http.Server{Handler: shadow.Handler(intake), ReadHeaderTimeout: mirrorHeadTimeout, ReadTimeout: mirrorTimeout, IdleTimeout: 2 * time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	case <-intake.Done():
	}
	// Close ends all connections; what was accepted is in the queue.
	_ = server.Close()
	<-failed
	return nil
}
