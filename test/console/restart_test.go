package console

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deletePods deletes the Pods of an application, as a user with kubectl would: the
// cluster makes others. It gives the names of those that are gone.
func (w *world) deletePods(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Folder string }](body)
	if err != nil {
		return nil, err
	}
	pods := w.cluster.Client.CoreV1().Pods(w.target)
	found, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + asked.Folder})
	if err != nil {
		return nil, err
	}
	names, now := []string{}, int64(0)
	for _, pod := range found.Items {
		if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			return nil, fmt.Errorf("delete the Pod %s: %w", pod.Name, err)
		}
		names = append(names, pod.Name)
	}
	if len(names) == 0 {
		return nil, errors.New("the application has no Pods")
	}
	return map[string][]string{"names": names}, nil
}
