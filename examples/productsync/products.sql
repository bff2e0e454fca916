-- The table whose changes productsync follows.
CREATE TABLE products (
  product_id      bigint PRIMARY KEY,
  description     text,
  image_path      text,
  last_updated_at timestamptz DEFAULT now()
);
-- An update then also tells the row's old values, so that a change is whole even where a long text stayed as it was.
ALTER TABLE products REPLICA IDENTITY FULL;
CREATE PUBLICATION products_pub FOR TABLE products;
