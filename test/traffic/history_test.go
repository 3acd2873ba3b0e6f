package traffic

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	service "slipway.dev/slipway/internal/agent/traffic"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/history"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// platform stores the traffic of one runtime.
type platform struct {
	history *history.History
	runtime string
}

func (p platform) ReportTraffic(ctx context.Context, request *connect.Request[platformv1.ReportTrafficRequest]) (*connect.Response[platformv1.ReportTrafficResponse], error) {
	return connect.NewResponse(&platformv1.ReportTrafficResponse{}), p.history.RecordTraffic(ctx, p.runtime, request.Msg)
}

// testHistory: the platform has each request of the edge once, with the Application that
// has the Ingress, also after two leaders have recorded.
func (w *world) testHistory(t *testing.T) {
	database := must.Get(store.Open(t.Context(), store.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "p.db")}))(t)
	t.Cleanup(func() { must.Do(t, database.Close()) })
	account := must.Get(database.CreateAccount(t.Context(), store.Account{Name: "acme"}))(t)
	runtime := must.Get(database.CreateRuntime(t.Context(), store.Runtime{AccountID: account.ID, Name: "prod"}))(t)
	kept := must.Get(history.New(history.Options{Store: database, Replica: "one"}))(t)
	list := must.Get(w.options.Applications(w.control).List(t.Context(), metav1.ListOptions{}))(t)
	var apps []*unstructured.Unstructured
	for i := range list.Items {
		apps = append(apps, &list.Items[i])
	}
	for range 2 {
		recorder := service.New(w.options).NewRecorder(platform{kept, runtime.ID})
		recorder.SetApplications(w.control, apps)
		for range 2 {
			must.Do(t, recorder.Record(t.Context()))
		}
	}
	got := map[string]uint64{}
	for _, row := range must.Get(database.TrafficSums(t.Context(), runtime.ID, store.TrafficHour, time.Now().Add(-24*time.Hour), time.Now().Add(time.Hour)))(t) {
		sums := &platformv1.StoredTraffic{}
		must.Do(t, proto.Unmarshal(row.Sums, sums))
		for _, series := range sums.GetSeries() {
			s := series.GetSeries()
			for class, n := range series.GetStatuses() {
				if n > 0 {
					got[fmt.Sprintf("%s %s %s %s/%s %d", s.GetKind(), s.GetName(), s.GetHost(), s.GetProject(), s.GetApplication(), class)] += n
				}
			}
		}
	}
	want := map[string]uint64{"Ingress shop " + host + " default/shop 2": 500, "Ingress shop " + host + " default/shop 5": 100, "   / 4": 60}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the platform has %v, want %v", got, want)
	}
}
