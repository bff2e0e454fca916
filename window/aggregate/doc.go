// Package aggregate has the aggregates of package window: what the events of a window are folded into, and what comes out.
//
//	Sum, Mean, Ratio                     exact sums, rounded once; quotients of these
//	SampleVariance, PopulationVariance   from exact sums of values and squares, rounded once; SampleStd and PopulationStd are their roots
//	Count, Min, Max, First, Last
//	Distinct                             HyperLogLog, 0.8 % standard error
//	Quantiles                            DDSketch, within a relative accuracy
//	TopK                                 exact while the values fit, then with an error bound in each result
//	Histogram, Collect, Decay
//	Pair, Join3 to Join6                 several at once, as a struct
//
// Any type with the five methods of window.Aggregator is one as well. Sums, counts, moments, ratios, histograms and pairs of these are
// also window.Removers.
//
// # Order
//
// Every result but those of First, Last and Collect among events of one time, and TopK beyond its capacity, is independent of the order
// of the events and of how they are grouped into accumulators that are merged: equal to the bit. That is what
// window.Options.Deterministic needs. For floating point it takes exact sums; BenchmarkAdd measures
// what one costs beside a plain float64.
//
// # NaN and infinities
//
// By default they propagate as in floating point: a NaN makes the sum NaN. Finite keeps such events out of the window, and the caller
// has them as window.Rejected; SkipNonFinite leaves them out and counts them. Of several
// aggregates over one window, one that is Finite keeps the event out of all, and one with SkipNonFinite leaves it out alone.
//
// # Snapshots
//
// Append writes an accumulator, beginning with a version, and Decode reads it; errors of Decode match ErrEncoding. Values that an
// accumulator keeps as they are, as First does, are written by a Codec: Scalar for numbers and strings, JSON for other types.
package aggregate
