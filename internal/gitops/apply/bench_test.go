package apply_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/must"
)

// BenchmarkInstall creates Applications of four objects each, eight requests at a
// time, and reports what one object costs: time, and the processor time of this
// side.
func BenchmarkInstall(b *testing.B) {
	const applications = 50
	for b.Loop() {
		w := enter(b)
		steps := benchSteps(w, applications)
		before, began := processorTime(b), time.Now()
		work := make(chan *plan.Step)
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for step := range work {
					if _, err := w.Apply(b.Context(), step, apply.Options{}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for _, step := range steps {
			work <- step
		}
		close(work)
		workers.Wait()
		b.ReportMetric(time.Since(began).Seconds()*1000/float64(len(steps)), "ms/object")
		b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(len(steps)), "cpu-us/object")
	}
}

func benchSteps(w *world, applications int) []*plan.Step {
	var steps []*plan.Step
	for i := range applications {
		for _, manifest := range []string{
			webDeployment,
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\n",
			"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n",
			"apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec: {defaultBackend: {service: {name: web, port: {number: 80}}}}\n",
		} {
			object := w.object(manifest)
			object.SetName(fmt.Sprintf("web-%d", i))
			steps = append(steps, stepOf(object, nil))
		}
	}
	return steps
}

func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkPredict is what it costs to find that nothing has changed.
func BenchmarkPredict(b *testing.B) {
	w := enter(b)
	w.apply(webDeployment)
	step := w.step(webDeployment)
	predict := w.Predict(b.Context(), nil)
	b.ReportAllocs()
	for b.Loop() {
		if state, err := plan.Compare(step.Object, step.Live, nil, predict); err != nil || state != plan.Synced {
			b.Fatal(state, err)
		}
	}
}
