"""What a person looks at: charts and pages that stand alone, without a network."""
