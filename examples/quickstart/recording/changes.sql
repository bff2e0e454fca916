-- What happens to the table while the pipeline runs: one statement, one transaction, one change.
insert into products values (17, 'Solar charger for phones on long treks', 69.00);
insert into products values (18, 'Star projector that paints the night sky on the ceiling of a nursery', 49.00);
insert into products values (19, 'Espresso machine with a steam wand for cappuccino', 399.00);
update products set price = 24.90 where product_id = 1;
update products set price = 229.00 where product_id = 2;
update products set price = 219.00 where product_id = 8;
update products set price = 99.00 where product_id = 6;
update products set price = 119.00 where product_id = 15;
update products set description = 'Clip-on reading light for bed, warm and dimmable, wakes nobody' where product_id = 10;
update products set description = 'Cast iron pot for stews and for baking bread' where product_id = 5;
update products set description = null where product_id = 9;
update products set price = 179.00 where product_id = 3;
delete from products where product_id = 13;
delete from products where product_id = 4;
update products set product_id = 20 where product_id = 12;
insert into products values (21, 'Insulated mug with a lid, for hot coffee on the bicycle', 22.00);
