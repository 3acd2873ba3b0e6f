package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// keptState is a Judge as it is kept. Of the last slices it has the sums: a window of 30 slices
// with their histograms would be 50 times as large.
type keptState struct {
	Slices   int       `json:"slices"`
	Compared uint64    `json:"compared"`
	Begin    time.Time `json:"begin,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Stable   Sample    `json:"stable,omitzero"`
	Canary   Sample    `json:"canary,omitzero"`

	Bad            int       `json:"bad"`
	Errors         []float64 `json:"errors"`
	CarefulErrors  float64   `json:"carefulErrors"`
	Latency        []float64 `json:"latency"`
	CarefulLatency []float64 `json:"carefulLatency"`
}

// State returns the evidence so far, for a judge that continues: see Restore. It has at most
// some thousand characters.
func (j *Judge) State() ([]byte, error) {
	kept := keptState{Slices: j.slices, Compared: j.compared, Bad: j.errors.bad, CarefulErrors: j.errors.careful.amount}
	if len(j.window) > 0 {
		kept.Begin, kept.End = j.window[0].begin, j.window[len(j.window)-1].end
		kept.Stable, kept.Canary = j.window.sums()
	}
	for i := range j.errors.bold {
		kept.Errors = append(kept.Errors, j.errors.bold[i].amount)
	}
	for i := range levels {
		kept.Latency = append(kept.Latency, j.latency.bold[i].amount)
		kept.CarefulLatency = append(kept.CarefulLatency, j.latency.careful[i].amount)
	}
	return json.Marshal(&kept)
}

// Restore continues with the evidence of another judge with the same guards. The requests
// since its last slice are not compared. A state that cannot be one is refused, and the
// judge begins from nothing.
func (j *Judge) Restore(text []byte) error {
	var kept keptState
	if err := json.Unmarshal(text, &kept); err != nil {
		return fmt.Errorf("read the state of the comparison: %w", err)
	}
	if !kept.isValid(len(j.bounds) + 1) {
		return errors.New("the state of the comparison is not valid")
	}
	j.slices, j.compared, j.observed = kept.Slices, kept.Compared, false
	j.errors.bad, j.errors.careful.amount = kept.Bad, kept.CarefulErrors
	for i := range j.errors.bold {
		j.errors.bold[i].amount = kept.Errors[i]
	}
	for i := range levels {
		j.latency.bold[i].amount, j.latency.careful[i].amount = kept.Latency[i], kept.CarefulLatency[i]
	}
	j.window = nil
	if kept.Stable.Requests > 0 && kept.Canary.Requests > 0 {
		j.window = window{{begin: kept.Begin, end: kept.End, stable: kept.Stable, canary: kept.Canary}}
	}
	j.decision = j.decide()
	return nil
}

// isValid reports whether a judge with a number of buckets can have the state.
func (s *keptState) isValid(buckets int) bool {
	const most = math.MaxInt32
	if s.Slices < 0 || s.Slices > most || s.Bad < 0 || s.Bad > s.Slices || s.Compared > math.MaxInt64 || s.End.Before(s.Begin) ||
		len(s.Errors) != len(odds) || len(s.Latency) != len(levels) || len(s.CarefulLatency) != len(levels) {
		return false
	}
	for _, amounts := range [][]float64{s.Errors, s.Latency, s.CarefulLatency, {s.CarefulErrors}} {
		for _, amount := range amounts {
			if amount < 0 || amount > maxEvidence {
				return false
			}
		}
	}
	for _, sample := range []*Sample{&s.Stable, &s.Canary} {
		if sample.Errors > sample.Requests || sample.Requests > math.MaxInt64 || len(sample.Latency) > buckets {
			return false
		}
		for _, n := range sample.Latency {
			if n > sample.Requests {
				return false
			}
		}
	}
	return true
}
