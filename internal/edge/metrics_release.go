package edge

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/observe/trafficreport"
)

// releaseMetrics export what the revisions of running Releases served. The revision is
// stable or canary and never a hash, so that there are two series for each Release.
type releaseMetrics struct {
	releases                  func() []trafficreport.ReleaseTraffic
	requests, latency, weight *prometheus.Desc
}

func newReleaseMetrics(releases func() []trafficreport.ReleaseTraffic) *releaseMetrics {
	labels := []string{"namespace", "release", "revision"}
	return &releaseMetrics{
		releases: releases,
		requests: prometheus.NewDesc("release_requests_total", "Requests of the revisions of a Release, by result: ok or error.", append(slices.Clone(labels), "result"), nil),
		latency:  prometheus.NewDesc("release_response_seconds", "Time to the head of a response that is no error, by revision of a Release.", labels, nil),
		weight:   prometheus.NewDesc("release_weight", "Weight of the revisions of a Release.", labels, nil),
	}
}

// Describe implements [prometheus.Collector].
func (m *releaseMetrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- m.requests
	descs <- m.latency
	descs <- m.weight
}

// Histograms implements [observe.WithHistograms].
func (m *releaseMetrics) Histograms() []string { return []string{"release_response_seconds"} }

// Collect implements [prometheus.Collector]. Two objects of one name can run for a moment,
// while backends change from one to the other: their counts are added.
func (m *releaseMetrics) Collect(metrics chan<- prometheus.Metric) {
	type key struct{ namespace, name, revision string }
	sums := map[key]*trafficreport.RevisionTraffic{}
	for _, release := range m.releases() {
		for i := range release.Revisions {
			revision := &release.Revisions[i]
			if revision.Ended {
				continue
			}
			at := key{release.Namespace, release.Name, revision.Name}
			if sums[at] == nil {
				sums[at] = &trafficreport.RevisionTraffic{}
			}
			sums[at].Add(revision)
			sums[at].Weight = revision.Weight
		}
	}
	for at, sum := range sums {
		metrics <- prometheus.MustNewConstMetric(m.requests, prometheus.CounterValue, float64(sum.Requests-sum.Errors), at.namespace, at.name, at.revision, "ok")
		metrics <- prometheus.MustNewConstMetric(m.requests, prometheus.CounterValue, float64(sum.Errors), at.namespace, at.name, at.revision, "error")
		metrics <- prometheus.MustNewConstMetric(m.weight, prometheus.GaugeValue, float64(sum.Weight), at.namespace, at.name, at.revision)
		count, buckets := histogramOf(sum.Latency)
		metrics <- prometheus.MustNewConstHistogram(m.latency, count, sum.Took.Seconds(), buckets, at.namespace, at.name, at.revision)
	}
}

// histogramOf returns the number of durations, and how many of them did not exceed each of
// durationBuckets. A bucket that crosses a bound counts above it.
func histogramOf(latency []uint32) (count uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(durationBuckets))
	for i, n := range latency {
		count += uint64(n)
		for _, bound := range durationBuckets {
			if trafficreport.BucketEnd(i).Seconds() <= bound {
				buckets[bound] += uint64(n)
			}
		}
	}
	for _, bound := range durationBuckets {
		buckets[bound] += 0 // also those without any
	}
	return count, buckets
}
