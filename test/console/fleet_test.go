package console

import (
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// reportingRuntime is a runtime of the fleet.
type reportingRuntime struct {
	agent platformv1connect.AgentServiceClient
	// number is that of its last event.
	number int64
}

// gatherFleet has many runtimes report applications.
func (w *world) gatherFleet(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Runtimes, Count int }](body)
	if err != nil {
		return nil, err
	}
	admin, err := w.admin(t.Context())
	if err != nil {
		return nil, err
	}
	for i := range asked.Runtimes {
		agent, err := w.join(t, admin, fmt.Sprintf("fleet-%03d", i))
		if err != nil {
			return nil, err
		}
		if err := reportMany(t.Context(), agent, asked.Count); err != nil {
			return nil, err
		}
		// The applications, and the beginning and the end of a resync.
		w.fleet = append(w.fleet, &reportingRuntime{agent: agent, number: int64(asked.Count) + 2})
	}
	return struct{}{}, nil
}

// changeFleet has a runtime of the fleet report an application, which is another one or has
// another state.
func (w *world) changeFleet(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct {
		Runtime      int
		Name, Health string
	}](body)
	if err != nil {
		return nil, err
	}
	if asked.Runtime < 0 || asked.Runtime >= len(w.fleet) {
		return nil, fmt.Errorf("there is no runtime %d of the fleet", asked.Runtime)
	}
	from := w.fleet[asked.Runtime]
	from.number++
	changed := one(0)
	changed.Name, changed.Uid, changed.Health = asked.Name, "uid-"+asked.Name, asked.Health
	_, err = from.agent.Report(t.Context(), connect.NewRequest(&platformv1.ReportRequest{Stream: "crowd", Events: []*platformv1.ReportEvent{{
		Number: from.number, At: timestamppb.Now(), Event: &platformv1.ReportEvent_Application{Application: changed},
	}}}))
	return struct{}{}, err
}
