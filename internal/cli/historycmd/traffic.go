package historycmd

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/cli/apiclient"
	"slipway.dev/slipway/internal/cli/exit"
	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// trafficFilter holds the flags that select traffic. since takes precedence over
// span, which is never empty.
type trafficFilter struct {
	span, since, until, host, application string
	limit                                 int32
}

// spans are the values of --span, those that the console offers too.
func spans() map[string]time.Duration {
	const day = 24 * time.Hour
	return map[string]time.Duration{"hour": time.Hour, "day": day, "week": 7 * day, "month": 30 * day}
}

// trafficCommand returns the command that shows the traffic of a runtime. It is
// always one runtime: hosts of several may be the same, and their sums would
// mix environments.
func trafficCommand(choice *apiclient.Choice) *cobra.Command {
	wanted := &trafficFilter{}
	command := &cobra.Command{
		Use:   "traffic",
		Short: "Show the past traffic of a runtime's edges",
		Long: `Shows the requests, errors and durations of a span by object and host, the busiest
first, and their total. With -o json there are also the points of a chart: minutes
within the last day, and hours before.`,
		Example: `  slipway history traffic --runtime prod --span week
  slipway history traffic --runtime prod --since 3h --app shop -o json`,
		Args: cobra.NoArgs,
	}
	flags := command.Flags()
	flags.StringVar(&choice.Runtime, "runtime", "", "runtime (default "+apiclient.RuntimeVariable+", that of the context, or the only one)")
	flags.StringVar(&wanted.span, "span", "day", "the last hour, day, week or month")
	flags.StringVar(&wanted.since, "since", "", "begin of the span in place of --span: a duration such as 3h or 10d, or an RFC 3339 time")
	flags.StringVar(&wanted.until, "until", "", "end of the span, in the format of --since (default now)")
	flags.StringVar(&wanted.host, "host", "", "only this host")
	flags.StringVar(&wanted.application, "app", "", "only this Application: a name, or namespace/name")
	flags.Int32Var(&wanted.limit, "limit", 50, "maximum number of objects and hosts")
	_ = command.RegisterFlagCompletionFunc("runtime", choice.CompleteRuntimes) // the flag is there
	output := printer.NewOutput(command, printer.FormJSON, printer.FormYAML)
	command.RunE = apiclient.WithRuntime(choice, func(command *cobra.Command, client *apiclient.Client, runtime string, _ []string) error {
		request, err := wanted.request(runtime, time.Now())
		if err != nil {
			return err
		}
		response, err := apiclient.Call(command.Context(), client, client.History().GetTrafficHistory, request)
		if err != nil {
			return err
		}
		if more := response.GetSeriesLeftOut(); more > 0 {
			printer.Note(command, "%s more are in the total only. --limit shows more.", fmt.Sprint(more))
		}
		if merged := response.GetSeriesMerged(); merged > 0 {
			printer.Note(command, "At least %s objects and hosts were not stored one by one: their requests are in the row others.", fmt.Sprint(merged))
		}
		return printer.Show(command, output, response, func(w io.Writer) error { return printTraffic(w, response) })
	})
	return command
}

// request returns the request of the flags. The step of the points is chosen by
// the platform, which knows which steps it still has.
func (f *trafficFilter) request(runtime string, now time.Time) (*platformv1.GetTrafficHistoryRequest, error) {
	length, known := spans()[f.span]
	if !known {
		return nil, exit.UsageError{Err: fmt.Errorf("--span: %q is not one of hour, day, week, month", f.span)}
	}
	request := &platformv1.GetTrafficHistoryRequest{Runtime: runtime, Host: f.host, Limit: f.limit, Since: timestamppb.New(now.Add(-length))}
	request.Namespace, request.Application = splitApplication(f.application)
	since, err := apiclient.Moment("since", f.since, now)
	if err != nil {
		return nil, err
	}
	if since != nil {
		request.Since = since
	}
	request.Until, err = apiclient.Moment("until", f.until, now)
	return request, err
}

// printTraffic prints a table, with the total in its last row.
func printTraffic(w io.Writer, response *platformv1.GetTrafficHistoryResponse) error {
	rows := append(response.GetSeries(), response.GetTotal())
	return printer.List(w, []string{"OBJECT", "HOST", "APPLICATION", "REQUESTS", "5XX", "4XX", "P50", "P99"}, rows, func(one *platformv1.TrafficHistory) []string {
		series, sum := one.GetSeries(), one.GetSum()
		// The order matters: the sum of others and requests without a route have
		// no name either.
		object := series.GetKind() + " " + series.GetNamespace() + "/" + series.GetName()
		switch {
		case series == nil:
			object = "total"
		case series.GetOthers():
			object = "others"
		case series.GetName() == "":
			object = "without a route"
		}
		app := ""
		if series.GetApplication() != "" {
			app = series.GetApplicationNamespace() + "/" + series.GetApplication()
		}
		host := cmp.Or(series.GetHost(), "-")
		return []string{
			object, host, printer.OrDash(app), fmt.Sprint(sum.GetRequests()), share(sum.GetErrors(), sum.GetRequests()), share(sum.GetClientErrors(), sum.GetRequests()),
			millis(sum.GetP50()), millis(sum.GetP99()),
		}
	})
}

// share formats a part of a number with its percentage. Zero has none, which
// makes rows with errors stand out, and avoids a division by zero.
func share(part, of uint64) string {
	if part == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.2f%%)", part, 100*float64(part)/float64(of))
}

// millis formats seconds as a duration of three digits. The histogram behind it
// is off by up to a quarter, so more digits would pretend precision.
func millis(seconds float64) string {
	switch {
	case seconds == 0:
		return "-"
	case seconds < 1:
		return fmt.Sprintf("%.3gms", 1000*seconds)
	}
	return fmt.Sprintf("%.3gs", seconds)
}
