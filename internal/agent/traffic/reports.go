package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"slipway.dev/slipway/internal/observe/trafficreport"
)

// EdgeReport is the report of one edge.
type EdgeReport struct {
	Edge   string
	Report *trafficreport.Report
}

// Reports polls each edge once and returns the reports, with the tables, of those that
// respond. It is an error if there are none.
func (s *Service) Reports(ctx context.Context) ([]EdgeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, reportsTimeout)
	defer cancel()
	now, finder := time.Now(), s.options.finder()
	defer finder.close()
	client, err := finder.authenticatedClient(ctx, now)
	if err != nil {
		return nil, err
	}
	places, err := finder.edges(ctx, now)
	if err != nil {
		return nil, err
	}
	reports, problems := make([]*trafficreport.Report, len(places)), make([]error, len(places))
	var polling sync.WaitGroup
	for i, at := range places {
		polling.Go(func() {
			target := &url.URL{Scheme: "https", Host: at.address, Path: trafficreport.ReportPath}
			problems[i] = fetchPage(ctx, client, target, func(text []byte) (err error) {
				reports[i], err = decodeReport(text)
				return err
			})
		})
	}
	polling.Wait()
	var responded []EdgeReport
	for i, at := range places {
		if problems[i] != nil {
			problems[i] = fmt.Errorf("edge %s: %w", at.name, problems[i])
			continue
		}
		responded = append(responded, EdgeReport{at.name, reports[i]})
	}
	switch {
	case len(responded) > 0:
		return responded, nil
	case len(places) == 0:
		return nil, errors.New("there are no edges")
	}
	return nil, errors.Join(problems...)
}

// reportsTimeout bounds one poll of all edges.
const reportsTimeout = 3 * time.Second
